import { kindOf } from '../../dtype.ts';
import { isHalfDType } from '../../spec/dtype.ts';
import { autocastDType } from '../autocast.ts';
import type { Node } from '../node.ts';
import { cast } from './elementwise.ts';

/** Inside autocast in its dtype, as an operand of a product is; f64 stays. Shape: N -> N. */
export function lowered(x: Node): Node {
  const dtype = autocastDType();
  const stays = dtype === null || kindOf(x.dtype) !== 'float' || x.dtype === 'f64';
  return stays ? x : cast(x, dtype);
}

/** Inside autocast in f32 where it has 16 bits, as what losses and statistics are made of. Shape: N -> N. */
export function widened(x: Node): Node {
  return autocastDType() !== null && isHalfDType(x.dtype) ? cast(x, 'f32') : x;
}
