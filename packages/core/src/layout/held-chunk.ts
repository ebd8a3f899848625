import type { DType, Shape } from '../spec/dtype.ts';
import type { Chunk } from './chunks.ts';

/** A mesh axis whose ranks each have a value of their own. */
export interface VaryingAxis {
  readonly axis: string;
  readonly size: number;
}

/** A chunk of a tensor. */
export interface TensorChunk extends Chunk {
  readonly name: string;
  readonly dtype: DType;
  /**
   * The shape of the whole tensor. If the tensor varies over ranks, it is the shape of the tensors of all ranks
   * together.
   */
  readonly shape: Shape;
  /**
   * The axes whose ranks each have a value of their own. They are the first dims of `shape`. Absent if there are none.
   */
  readonly varying?: readonly VaryingAxis[];
}

/** A chunk that a rank holds of a tensor to be saved. */
export interface HeldChunk extends TensorChunk {
  /** Returns the bytes of the chunk, without padding. */
  read(): Promise<Uint8Array>;
}

/** Returns a key that is the same for chunks of one tensor that have the same elements. */
export function chunkKey({ name, box, start, stop }: TensorChunk): string {
  return JSON.stringify([name, box, start, stop]);
}
