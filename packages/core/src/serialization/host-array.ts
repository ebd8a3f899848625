import type { DType, Shape } from '../spec/dtype.ts';

/** Values in host memory: row-major, little-endian, `bytes.byteLength` = elements × dtype bytes. */
export interface HostArray {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly bytes: Uint8Array;
}

/** Named values, the names being PyTorch's dotted paths (`blocks.0.attention.weight`). */
export type HostArrays = Readonly<Record<string, HostArray>>;
