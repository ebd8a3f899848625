import type { DType } from '@shardwise/core/spec';
import { constantBits } from '../../wasm/constant-bits.ts';

/** A number as an element of the tensor that holds a dtype: values of 16 bits are their bits there. */
export function elementOf(dtype: DType, value: number): number {
  return dtype === 'f16' || dtype === 'bf16' ? constantBits(dtype, value) : value;
}
