import { largeTiles, type ProductTile } from '../kernels/product-tile.ts';

/** What kernels are written for. */
export interface DeviceTraits {
  /** Buffers that one kernel may have. */
  readonly mostBuffers: number;
  /** Bytes of a buffer that one kernel may have in one binding. A multiple of `bindingAlignmentBytes`. */
  readonly bindingBytes: number;
  /** Whether kernels may hold f16, which is an optional feature. */
  readonly computesF16: boolean;
  /** How large products are shared out. */
  readonly tile: ProductTile;
}

/** Those of a device that has nothing optional. */
export const leastTraits: DeviceTraits = {
  mostBuffers: 8,
  bindingBytes: 2 ** 27,
  computesF16: false,
  tile: largeTiles[0],
};
