import { kindOf } from '../../base/dtype-kind.ts';
import { abs, equal, less, logicalNot } from '../../graph/ops/elementwise.ts';
import { constant, constantLike } from '../../graph/ops/leaf.ts';
import type { Node } from '../../graph/node.ts';

// These functions classify numbers. Integers and bools are always finite. Shape: N -> bool N.

export function isNaN(x: Node): Node {
  return kindOf(x.dtype) === 'float' ? logicalNot(equal(x, x)) : constant(0, x.shape, 'bool', x);
}

/** Whether an element is neither infinite nor NaN. */
export function isFinite(x: Node): Node {
  if (kindOf(x.dtype) !== 'float') return constant(1, x.shape, 'bool', x);
  return less(abs(x), constantLike(x, Number.POSITIVE_INFINITY));
}

export function isInf(x: Node): Node {
  if (kindOf(x.dtype) !== 'float') return constant(0, x.shape, 'bool', x);
  return equal(abs(x), constantLike(x, Number.POSITIVE_INFINITY));
}
