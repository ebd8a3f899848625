import { crc32 } from 'node:zlib';
import { elementCount } from '@shardwise/core/extend';
import { sectionNames } from '../../checkpoint/format/index-file.ts';
import type { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import { type CopiedState, copyState } from './copied-state.ts';
import { packState } from './packed-state.ts';
import { partsOf } from './parts-of.ts';
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
    parts: partsOf(copied.contents.heldChunks),
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
  const [first] = [...absent.model, ...absent.optimizer];
  return first && `only some ranks have ${first.name}`;
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
    'parts of tensors': partsOf(contents.heldChunks),
    ...sums,
    "optimizer's settings": crc32(JSON.stringify(groups)),
    'values of states': crc32(JSON.stringify(states)),
    'random numbers': crc32(JSON.stringify(random)),
  };
}
