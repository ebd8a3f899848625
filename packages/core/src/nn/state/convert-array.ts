import { hostArray, type HostArray } from '../../serialization/host-array.ts';
import type { DType } from '../../spec/dtype.ts';
import { fromBytes, type HostData, toBytes, widenFloats } from '../../tensor/host-data.ts';

/**
 * Converts an array to another dtype, for the conversions that checkpoints need: smaller floats and f64 to f32
 * (published weights), and i64 to i32 (PyTorch's counters). Returns undefined for other pairs of dtypes, and if a
 * number does not fit, such as 1e39 in f32, which would become infinite.
 */
export function convertArray(array: HostArray, dtype: DType): HostArray | undefined {
  if (array.dtype === dtype) return array;
  const { shape } = array;
  const data = fromBytes(array.bytes, array.dtype);
  const to = (values: HostData): HostArray => hostArray(dtype, shape, toBytes(values));
  if (dtype === 'f32') {
    if (array.dtype === 'f16' || array.dtype === 'bf16') return to(widenFloats(data, array.dtype));
    if (!(data instanceof Float64Array)) return undefined;
    // The difference of an infinite number and itself is NaN.
    const isTooLarge = (value: number): boolean =>
      Math.abs(Math.fround(value) - value) === Infinity;
    return data.some(isTooLarge) ? undefined : to(Float32Array.from(data));
  }
  if (dtype !== 'i32' || !(data instanceof BigInt64Array)) return undefined;
  if (data.some((value) => BigInt.asIntN(32, value) !== value)) return undefined;
  return to(Int32Array.from(data, Number));
}
