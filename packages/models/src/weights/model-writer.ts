import { type Chunk, type HeldChunk, sameBox, type TensorChunk } from '@shardwise/core/extend';
import type { Shards } from './shards.ts';

export const INDEX_NAME = 'model.safetensors.index.json';
export const CONFIG_NAME = 'config.json';
/** The name of the weights if they are one file. */
export const SINGLE_NAME = 'model.safetensors';
/** The files of weights that savePretrained writes. In a bucket, those of a later save have its version before their numbers. */
export const weightFile: RegExp = /^model((-[\da-f]{8})?-\d{5}-of-\d{5})?\.safetensors$/;

/** The files of a saved model. `config` is null for a module that has none. */
export interface ModelFiles extends Shards {
  readonly config: string | null;
}

/** Writes the files of a model to a place, on all ranks of the mesh together. */
export interface ModelWriter {
  /** What errors call the place. */
  readonly place: string;
  /**
   * Begins on the first rank, before any rank writes. Returns a version for the names of the shards, which is empty if
   * they have their usual names.
   */
  prepare(files: ModelFiles): Promise<string>;
  /**
   * Writes `chunks`, of which this rank has the contents among `own`. All ranks call it, and none throws before the calls
   * of the others have ended.
   */
  write(
    files: ModelFiles,
    chunks: readonly TensorChunk[],
    own: readonly HeldChunk[],
  ): Promise<void>;
  /** Lets readers find the files, on the first rank. Weights of an earlier save are removed. */
  publish(files: ModelFiles): Promise<void>;
  /** Removes on the first rank what a failed save has written. */
  discard(files: ModelFiles): Promise<void>;
}

/** The part of this rank that contains a chunk. */
export function heldPart(held: readonly HeldChunk[] | undefined, chunk: TensorChunk): HeldChunk {
  const found = held?.find((each) => contains(each, chunk));
  if (found === undefined) throw new RangeError(`no part of ${chunk.name} to write`);
  return found;
}

function contains(held: Chunk, { box, start, stop }: Chunk): boolean {
  return sameBox(held.box, box) && held.start <= start && stop <= held.stop;
}
