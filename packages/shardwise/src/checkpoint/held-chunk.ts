import type { Chunk, DType, Shape } from '@shardwise/core/extend';

/** A mesh axis, of as many ranks, each of which has a value of its own. */
export interface VaryingAxis {
  readonly axis: string;
  readonly size: number;
}

/** A chunk of a tensor. */
export interface TensorChunk extends Chunk {
  readonly name: string;
  readonly dtype: DType;
  /** Of the whole tensor; of one that varies over ranks, that of all of them together. */
  readonly shape: Shape;
  /** Axes whose ranks each have a value of their own: the first dims. Absent where there are none. */
  readonly varying?: readonly VaryingAxis[];
}

/** What a rank has of a tensor that is to be saved. */
export interface HeldChunk extends TensorChunk {
  /** The bytes of the chunk, without padding. */
  read(): Promise<Uint8Array>;
}

/** The same for chunks of one tensor that have the same elements. */
export function chunkKey({ name, box, start, stop }: TensorChunk): string {
  return JSON.stringify([name, box, start, stop]);
}
