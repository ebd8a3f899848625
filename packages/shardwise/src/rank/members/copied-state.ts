import { randomState, type RandomState } from '@shardwise/core';
import type { HeldChunk } from '@shardwise/core/extend';
import type { SectionName } from '../../checkpoint/format/index-file.ts';
import type { RankContents } from '../../checkpoint/save/checkpoint-contents.ts';
import { absentOf, type AbsentTensors } from './absent-tensors.ts';
import { contentsOf } from './parts-of.ts';
import type { Training } from './training.ts';

/** The state of a training after an update, in host memory. */
export interface CopiedState {
  readonly step: number;
  readonly contents: RankContents;
  /** The tensors that only other ranks have elements of. */
  readonly absent: AbsentTensors;
  readonly random: RandomState;
}

/** Copies the state of a training. It is no collective of the ranks. */
export async function copyState(training: Training, step: number): Promise<CopiedState> {
  const contents = await contentsOf(training, step);
  const heldChunks: Record<SectionName, readonly HeldChunk[]> = {
    model: await copyChunks(contents.heldChunks.model),
    optimizer: await copyChunks(contents.heldChunks.optimizer),
    states: await copyChunks(contents.heldChunks.states),
  };
  const { groups, states } = contents;
  return {
    step,
    // Settings and states may be objects that the training changes.
    contents: { ...contents, ...structuredClone({ groups, states }), heldChunks },
    absent: absentOf(training, heldChunks),
    random: randomState(),
  };
}

async function copyChunks(chunks: readonly HeldChunk[]): Promise<readonly HeldChunk[]> {
  const copies: HeldChunk[] = [];
  for (const chunk of chunks) {
    const bytes = new Uint8Array(await chunk.read());
    copies.push({ ...chunk, read: async () => bytes });
  }
  return copies;
}
