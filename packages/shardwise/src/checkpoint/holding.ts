import type { DType, Region, Shape } from '@shardwise/core';

/** A region of a tensor. */
export interface TensorRegion extends Region {
  readonly name: string;
  readonly dtype: DType;
  /** Of the whole tensor. */
  readonly shape: Shape;
}

/** What a rank has of a tensor that is to be saved. */
export interface Holding extends TensorRegion {
  /** The bytes of the region, without padding. */
  read(): Promise<Uint8Array>;
}
