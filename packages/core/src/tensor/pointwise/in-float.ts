import { computeDType } from '../../dtype.ts';
import { cast } from '../../graph/build/elementwise.ts';
import type { Node } from '../../graph/node.ts';
import { asFloat } from '../arithmetic.ts';

/** What takes several steps, in f32 where x is an integer, a bool or a float of 16 bits; the result is rounded once. */
export function inFloat(x: Node, compute: (wide: Node) => Node): Node {
  const float = asFloat(x);
  return cast(compute(cast(float, computeDType(float.dtype))), float.dtype);
}
