import { computeDType } from '../../base/dtype-kind.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import type { Node } from '../../graph/node.ts';
import { asFloat } from '../arithmetic.ts';

/**
 * Runs a computation of several ops in f32 if x is an integer, a bool or a 16-bit float, so that the result is rounded
 * only once.
 */
export function inFloat(x: Node, compute: (wide: Node) => Node): Node {
  const float = asFloat(x);
  return cast(compute(cast(float, computeDType(float.dtype))), float.dtype);
}
