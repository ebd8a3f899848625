import { type DType, dtypes } from '@shardwise/core/extend';
import { mapTensors } from '../modules/map-tensors.ts';

/** Converts the floating-point tensors in arrays and plain objects. Other values stay. */
export function castFloats<T>(value: T, dtype: DType | undefined): T {
  if (dtype === undefined) return value;
  return mapTensors(value, (tensor) =>
    tensor.dtype !== dtype && dtypes[tensor.dtype].kind === 'float' ? tensor.to(dtype) : tensor,
  );
}
