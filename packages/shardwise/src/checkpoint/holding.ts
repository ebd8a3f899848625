import type { DType, Shape } from '@shardwise/core';

/** Elements of a tensor, row by row: from `start` up to, not including, `stop`. */
export interface TensorRange {
  readonly name: string;
  readonly dtype: DType;
  /** Of the whole tensor. */
  readonly shape: Shape;
  readonly start: number;
  readonly stop: number;
}

/** What a rank has of a tensor that is to be saved. */
export interface Holding extends TensorRange {
  /** The bytes of the range, without padding. */
  read(): Promise<Uint8Array>;
}
