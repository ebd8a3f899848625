import { deviceTiles, type RatedTile } from './product-tile.ts';

/** The properties of a device for which kernels are written. */
export interface DeviceTraits {
  /** The most buffers that one kernel may have. */
  readonly mostBuffers: number;
  /** The most bytes of a buffer that one kernel may have in one binding. A multiple of `bindingAlignmentBytes`. */
  readonly bindingBytes: number;
  /** Whether kernels may hold f16, which is an optional feature. */
  readonly computesF16: boolean;
  /** How threads may share out products. */
  readonly tiles: readonly [RatedTile, ...RatedTile[]];
}

/** The traits of a device that has nothing optional. */
export const leastTraits: DeviceTraits = {
  mostBuffers: 8,
  bindingBytes: 2 ** 27,
  computesF16: false,
  tiles: deviceTiles,
};
