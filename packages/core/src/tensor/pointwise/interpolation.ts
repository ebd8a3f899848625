import { abs, less, mul, sub } from '../../graph/ops/elementwise.ts';
import { constant, constantLike } from '../../graph/ops/leaf.ts';
import { expandTo } from '../../graph/ops/movement.ts';
import { floats, requireDType, requireSameDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { broadcastShapes } from '../../base/shape.ts';
import { withOwnGradient } from '../own-gradient.ts';
import { combine, divide, type NodeOrNumber, where } from '../arithmetic.ts';

/**
 * torch.lerp: start + weight * (end - start). It is computed from the nearer end, so that a weight of 1 gives exactly
 * `end`. Shape: start N, end N', weight N'' -> broadcast(N, N', N'').
 */
export function lerp(start: Node, end: Node, weight: NodeOrNumber): Node {
  for (const x of [start, end]) requireDType('lerp', x, floats);
  requireSameDType('lerp', [start, end]);
  if (typeof weight !== 'number') {
    requireDType('lerp', weight, floats);
    requireSameDType('lerp', [start, weight]);
  }
  const ends = broadcastShapes('lerp', start.shape, end.shape);
  const shape = typeof weight === 'number' ? ends : broadcastShapes('lerp', ends, weight.shape);
  const share = typeof weight === 'number' ? constant(weight, [], start.dtype) : weight;
  const inputs = [start, end, share].map((x) => expandTo(x, shape));
  return withOwnGradient(
    inputs,
    () => between(start, end, weight),
    (gradient, [from = start, to = end, by = share]) => {
      const toEnd = mul(gradient, by);
      return [mul(gradient, sub(constantLike(by, 1), by)), toEnd, mul(gradient, sub(to, from))];
    },
  );
}

function between(start: Node, end: Node, weight: NodeOrNumber): Node {
  const way = combine('sub', end, start);
  const fromStart = (): Node => combine('add', start, combine('mul', way, weight));
  const fromEnd = (left: NodeOrNumber): Node => combine('sub', end, combine('mul', way, left));
  if (typeof weight === 'number') return Math.abs(weight) < 0.5 ? fromStart() : fromEnd(1 - weight);
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
