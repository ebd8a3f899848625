import { describeArray } from '../print/describe-tensor.ts';
import { printing } from '../print/inspect.ts';
import type { DType, Shape } from '../spec/dtype.ts';

/** Values in host memory: row-major, little-endian, `bytes.byteLength` = elements × dtype bytes. */
export interface HostArray {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

/** Values by name. The names are PyTorch's dotted paths (`blocks.0.attention.weight`). */
export type HostArrays = Readonly<Record<string, HostArray>>;

const prints = printing<HostArray>((array, form) => describeArray('HostArray', array, form));

/** An array as plain data that prints its values. Copies of it work as well, but print their fields. */
export function hostArray(dtype: DType, shape: Shape, bytes: Uint8Array): HostArray {
  return Object.defineProperties({ dtype, shape, bytes }, prints);
}
