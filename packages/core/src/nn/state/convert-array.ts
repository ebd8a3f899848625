import { hostArray, type HostArray } from '../../serialization/host-array.ts';
import type { DType } from '../../spec/dtype.ts';
import { fromBytes, toBytes } from '../../tensor/host-data.ts';
import { widenFloats } from '../../tensor/host-data.ts';

/**
 * Converts an array to another dtype, for the conversions that checkpoints need: smaller floats and f64 to f32
 * (published weights), and i64 to i32 (PyTorch's counters). Returns undefined for other pairs of dtypes, and if a
 * number does not fit, such as 1e39 in f32, which would become infinite.
 */
export function convertArray(array: HostArray, dtype: DType): HostArray | undefined {
  if (array.dtype === dtype) return array;
  const { shape } = array;
  const data = fromBytes(array.bytes, array.dtype);
  if (dtype === 'f32') {
    const isNarrow = array.dtype === 'f16' || array.dtype === 'bf16';
    const values = isNarrow ? widenFloats(data, array.dtype) : data;
    if (!(values instanceof Float32Array || values instanceof Float64Array)) return undefined;
    const floats = Float32Array.from(values);
    if (floats.some((value, at) => !isFinite(value) && isFinite(values[at] ?? NaN)))
      return undefined;
    return hostArray(dtype, shape, toBytes(floats));
  }
  if (dtype !== 'i32' || !(data instanceof BigInt64Array)) return undefined;
  if (data.some((value) => BigInt.asIntN(32, value) !== value)) return undefined;
  return hostArray(dtype, shape, toBytes(Int32Array.from(data, Number)));
}
