import type { DType, Region, Shape } from '@shardwise/core/extend';
import type { VaryingAxis } from './state-file.ts';

/** A region of a tensor. */
export interface TensorRegion extends Region {
  readonly name: string;
  readonly dtype: DType;
  /** Of the whole tensor; of one that varies over ranks, that of all of them together. */
  readonly shape: Shape;
  /** Axes whose ranks each have a value of their own: the first dims. Absent where there are none. */
  readonly varying?: readonly VaryingAxis[];
}

/** What a rank has of a tensor that is to be saved. */
export interface Holding extends TensorRegion {
  /** The bytes of the region, without padding. */
  read(): Promise<Uint8Array>;
}
