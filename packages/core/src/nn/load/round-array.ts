import { kindOf } from '../../base/dtype-kind.ts';
import { hostArray, type HostArray } from '../../serialization/host-array.ts';
import type { DType } from '../../spec/dtype.ts';
import { fromBytes, type HostData, toBytes } from '../../tensor/host-data.ts';
import { convertArray } from '../state/convert-array.ts';

/**
 * Converts an array to another dtype as convertArray does, and also between any two dtypes of floats, for which it
 * rounds to the nearest number (ties to even), as PyTorch does. Returns undefined for other pairs of dtypes, for an
 * integer that does not fit, and for a finite number that would become infinite, such as 70000 in f16.
 */
export function roundArray(array: HostArray, dtype: DType): HostArray | undefined {
  const exact = convertArray(array, dtype);
  if (exact !== undefined || kindOf(dtype) !== 'float') return exact;
  // PyTorch, too, makes bf16 of f64 by way of f32.
  const source = array.dtype === 'f64' && dtype === 'f16' ? array : convertArray(array, 'f32');
  if (source === undefined) return undefined;
  const rounded = roundFloats(fromBytes(source.bytes, source.dtype), dtype);
  return rounded === undefined ? undefined : hostArray(dtype, array.shape, toBytes(rounded));
}

function roundFloats(values: HostData, dtype: DType): HostData | undefined {
  if (!(values instanceof Float32Array || values instanceof Float64Array)) return undefined;
  if (dtype === 'f64') return new Float64Array(values);
  const halves =
    dtype === 'f16'
      ? new Uint16Array(new Float16Array(values).buffer)
      : bfloat16Of(new Uint32Array(new Float32Array(values).buffer));
  const infinity = dtype === 'f16' ? 0x7c00 : 0x7f80;
  const isTooLarge = (half: number, index: number): boolean =>
    (half & 0x7fff) === infinity && Math.abs(values[index] ?? 0) !== Infinity;
  return halves.some(isTooLarge) ? undefined : halves;
}

/** The bits of bf16 numbers from those of f32 numbers. Shape: words [n] -> [n]. */
function bfloat16Of(words: Uint32Array): Uint16Array {
  const halves = new Uint16Array(words.length);
  words.forEach((word, index) => {
    const isNaN = (word & 0x7fffffff) > 0x7f800000;
    halves[index] = isNaN ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
  return halves;
}
