import { abs, less } from '../../graph/build/elementwise.ts';
import { constantLike } from '../../graph/build/leaf.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { combine, divide, type NodeOrNumber, where } from '../arithmetic.ts';

/**
 * start + weight * (end - start), from the end that is nearer, so that a weight of 1 gives the end itself.
 * Shape: start N, end N', weight N'' -> broadcast(N, N', N'').
 */
export function lerp(start: Node, end: Node, weight: NodeOrNumber): Node {
  requireDType('lerp', start, floats);
  const way = combine('sub', end, start);
  const fromStart = (): Node => combine('add', start, combine('mul', way, weight));
  const fromEnd = (left: NodeOrNumber): Node => combine('sub', end, combine('mul', way, left));
  if (typeof weight === 'number') return Math.abs(weight) < 0.5 ? fromStart() : fromEnd(1 - weight);
  requireDType('lerp', weight, floats);
  const left = combine('sub', constantLike(weight, 1), weight);
  return where(less(abs(weight), constantLike(weight, 0.5)), fromStart(), fromEnd(left));
}

/** x + value * a * b. Shape: x N, a N', b N'' -> broadcast(N, N', N''). */
export function addcmul(x: Node, a: Node, b: Node, value: number): Node {
  const product = combine('mul', a, b);
  return combine('add', x, value === 1 ? product : combine('mul', product, value));
}

/** x + value * a / b. Shape: x N, a N', b N'' -> broadcast(N, N', N''). */
export function addcdiv(x: Node, a: Node, b: Node, value: number): Node {
  const quotient = divide(a, b);
  return combine('add', x, value === 1 ? quotient : combine('mul', quotient, value));
}
