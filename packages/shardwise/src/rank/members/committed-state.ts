import { crc32 } from 'node:zlib';
import { randomState, type RandomState } from '@shardwise/core';
import { elementCount, type HeldChunk, type Module, modelTensors } from '@shardwise/core/extend';
import { singleGroup } from '@shardwise/collectives';
import {
  type SectionName,
  sectionNames,
  type StoredTensor,
} from '../../checkpoint/format/index-file.ts';
import type { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import { type RankContents, rankContentsOf } from '../../checkpoint/save/checkpoint-contents.ts';
import { packState } from './packed-state.ts';
import type { Training } from './training.ts';

/** A state of a training that a rank can give to others. */
export interface HeldState {
  /** The number of updates. */
  readonly step: number;
  /** The membership in which the last update was made. */
  readonly epoch: number;
  /** Checksums of what must be equal on all ranks that have the same part, by what it is. */
  checksums(): Promise<Checksums>;
  /** The state as a checkpoint in memory. */
  pack(): Promise<MemoryFolder>;
}

type Checksums = Readonly<Record<string, number>>;

/** The state of a training after an update, in host memory. */
export interface CopiedState {
  readonly step: number;
  readonly contents: RankContents;
  /** The tensors of the model that only other ranks have. */
  readonly absent: readonly StoredTensor[];
  readonly random: RandomState;
}

const ALONE = singleGroup();

/** Copies the state of a training to host memory. It is no collective of the ranks. */
export async function commitState(
  training: Training,
  step: number,
  epoch = 0,
): Promise<CommittedState> {
  const copied = await copyState(training, step);
  return {
    step,
    epoch,
    own: ownTensor(copied),
    missing: missingPart(copied),
    parts: partsOf(copied),
    checksums: () => checksumsOf(copied),
    pack: () => packState(copied),
  };
}

/** The state of a training after an update, in host memory. */
export interface CommittedState extends HeldState {
  /** The name of a tensor of which each rank has values of its own, so that no other rank can replace it. */
  readonly own: string | undefined;
  /** Why this rank has not the whole state. Undefined if it has. */
  readonly missing: string | undefined;
  /** A checksum of the names and places of what this rank has. */
  readonly parts: number;
}

async function copyState(training: Training, step: number): Promise<CopiedState> {
  // Chunks and states have the names that rank 0 of a world of one rank gives them.
  const contents = await rankContentsOf({ step, ...training }, ALONE);
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
    absent: absentOf(training.model, heldChunks.model),
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

function absentOf(model: Module, held: readonly HeldChunk[]): readonly StoredTensor[] {
  const names = new Set(held.map(({ name }) => name));
  return modelTensors(model)
    .filter(({ names: [name] }) => !names.has(name))
    .map(({ names: [name], tensor: { part } }) => ({
      name,
      dtype: part.dtype,
      shape: part.wholeShape,
      chunks: [],
    }));
}

function ownTensor({ contents: { heldChunks } }: CopiedState): string | undefined {
  return sectionNames
    .flatMap((section) => heldChunks[section])
    .find(({ varying }) => varying !== undefined)?.name;
}

function missingPart({ contents: { heldChunks }, absent }: CopiedState): string | undefined {
  for (const section of sectionNames) {
    for (const [name, chunks] of Map.groupBy(heldChunks[section], (chunk) => chunk.name)) {
      const held = chunks.reduce((sum, { start, stop }) => sum + stop - start, 0);
      if (held < elementCount(chunks[0]?.shape ?? [])) return `the ranks have parts of ${name}`;
    }
  }
  const [first] = absent;
  return first && `only some ranks have ${first.name}`;
}

function partsOf({ contents: { heldChunks } }: CopiedState): number {
  return sectionNames.reduce((sum, section) => {
    const places = heldChunks[section].map(({ name, dtype, shape, box, start, stop }) => [
      name,
      dtype,
      shape,
      box.map((range) => [range.start, range.stop]),
      start,
      stop,
    ]);
    return crc32(JSON.stringify(places), sum);
  }, 0);
}

/** Buffers are left out, because they may differ, such as those of batch norms. */
async function checksumsOf(copied: CopiedState): Promise<Checksums> {
  const { contents, random } = copied;
  const buffers = new Set(contents.buffers.map(({ name }) => name));
  const sums: Record<string, number> = {};
  for (const section of sectionNames) {
    let sum = 0;
    for (const chunk of contents.heldChunks[section]) {
      if (section === 'model' && buffers.has(chunk.name)) continue;
      sum = crc32(await chunk.read(), sum);
    }
    sums[section] = sum;
  }
  const { groups, states } = contents;
  return {
    'parts of tensors': partsOf(copied),
    ...sums,
    "optimizer's settings": crc32(JSON.stringify(groups)),
    'values of states': crc32(JSON.stringify(states)),
    'random numbers': crc32(JSON.stringify(random)),
  };
}
