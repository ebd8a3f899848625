import { kindOf } from '../../base/dtype-kind.ts';
import { isHalfDType } from '../../spec/dtype.ts';
import { autocastDType } from '../autocast.ts';
import type { Node } from '../node.ts';
import { cast } from './elementwise.ts';

/** Casts x, inside autocast, to the dtype that operands of products have there. f64 stays as it is. Shape: N -> N. */
export function lowered(x: Node): Node {
  const dtype = autocastDType();
  const stays = dtype === null || kindOf(x.dtype) !== 'float' || x.dtype === 'f64';
  return stays ? x : cast(x, dtype);
}

/** Casts x, inside autocast, from 16 bits to f32, in which losses and statistics are computed. Shape: N -> N. */
export function widened(x: Node): Node {
  return autocastDType() !== null && isHalfDType(x.dtype) ? cast(x, 'f32') : x;
}
