import { crc32 } from 'node:zlib';
import { randomState, type RandomState, setRandomState } from '@shardwise/core';
import { elementCount, type HeldChunk, type Module, modelTensors } from '@shardwise/core/extend';
import { singleGroup } from '@shardwise/collectives';
import { openCheckpoint, type Checkpoint } from '../../checkpoint/load/open-checkpoint.ts';
import { loadModel } from '../../checkpoint/load/load-model.ts';
import { loadOptimizer, type LoadedOptimizer } from '../../checkpoint/load/load-optimizer.ts';
import { loadStates } from '../../checkpoint/load/load-states.ts';
import { sectionNames, type SectionName } from '../../checkpoint/format/index-file.ts';
import type { SavedOptimizer } from '../../checkpoint/format/optimizer-chunks.ts';
import type { Statefuls } from '../../checkpoint/format/stateful.ts';
import { bucketFiles, folderFiles } from '../../checkpoint/places/folder-files.ts';
import { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import { beginSave } from '../../checkpoint/save/begin-save.ts';
import { type RankContents, rankContentsOf } from '../../checkpoint/save/checkpoint-contents.ts';
import { finishSave } from '../../checkpoint/save/finish-save.ts';

/** What ranks of a training have in common, and one that comes is given. */
export interface Training {
  readonly model: Module;
  /** The optimizer of the parameters of `model`. */
  readonly optimizer?: SavedOptimizer & LoadedOptimizer;
  /**
   * Other objects that remember something between updates, under names that the script chooses: a loader of batches, a
   * schedule, a loss scaler, or any object with stateDict and loadStateDict. Their states must be equal on all ranks.
   */
  readonly states?: Statefuls;
}

/** A state of a training that a rank can give to others. */
export interface HeldState {
  /** The number of updates. */
  readonly step: number;
  /** Checksums of what must be equal on all ranks, by what it is. */
  checksums(): Promise<Checksums>;
  /** The state as a checkpoint in memory. */
  pack(): Promise<MemoryFolder>;
}

type Checksums = Readonly<Record<string, number>>;

/** The state of a training after an update, in host memory. */
interface CopiedState {
  readonly step: number;
  readonly contents: RankContents;
  readonly random: RandomState;
}

const ALONE = singleGroup();

/** Copies the state of a training to host memory. It is no collective of the ranks. */
export async function commitState(training: Training, step: number): Promise<CommittedState> {
  const copied = await copyState(training, step);
  return {
    step,
    missing: missingPart(training, copied),
    checksums: () => checksumsOf(copied),
    pack: () => packState(copied),
  };
}

/** The state of a training after an update, in host memory. */
export interface CommittedState extends HeldState {
  /** Why this rank has not the whole state, so that the others cannot go on without it. Undefined if it has. */
  readonly missing: string | undefined;
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

function missingPart({ model }: Training, { contents }: CopiedState): string | undefined {
  const { heldChunks } = contents;
  for (const section of sectionNames) {
    for (const [name, chunks] of Map.groupBy(heldChunks[section], (chunk) => chunk.name)) {
      if (chunks.some(({ varying }) => varying !== undefined)) {
        return `each rank has a ${name} of its own`;
      }
      const held = chunks.reduce((sum, { start, stop }) => sum + stop - start, 0);
      if (held < elementCount(chunks[0]?.shape ?? [])) return `the ranks have parts of ${name}`;
    }
  }
  const names = new Set(heldChunks.model.map(({ name }) => name));
  const absent = modelTensors(model).find(({ names: [name] }) => !names.has(name));
  return absent && `only some ranks have ${absent.names[0]}`;
}

/** Buffers are left out, because they may differ, such as those of batch norms. */
async function checksumsOf({ contents, random }: CopiedState): Promise<Checksums> {
  const buffers = new Set(contents.buffers.map(({ name }) => name));
  const sums: Record<string, number> = {};
  for (const section of sectionNames) {
    let sum = 0;
    for (const chunk of contents.heldChunks[section]) {
      if (section === 'model' && buffers.has(chunk.name)) continue;
      sum = crc32(`${chunk.name} ${chunk.dtype} ${chunk.shape.join()}`, sum);
      sum = crc32(await chunk.read(), sum);
    }
    sums[section] = sum;
  }
  const { groups, states } = contents;
  return {
    ...sums,
    "optimizer's settings": crc32(JSON.stringify(groups)),
    'values of states': crc32(JSON.stringify(states)),
    'random numbers': crc32(JSON.stringify(random)),
  };
}

const PLACE = 'the memory of the ranks';
const RANDOM = 'random.json';
const INDEX = 'folder.txt';

async function packState(state: CopiedState): Promise<MemoryFolder> {
  const folder = new MemoryFolder(PLACE);
  const begun = await beginSave(ALONE, {
    files: bucketFiles(folder),
    directory: PLACE,
    step: state.step,
    known: new Set(),
    keep: undefined,
    contents: async () => state.contents,
    stage: false,
  });
  const saved = await finishSave(ALONE, begun);
  const text = new TextEncoder();
  folder.put(INDEX, text.encode(saved));
  folder.put(RANDOM, text.encode(JSON.stringify(state.random)));
  return folder;
}

/** Gives the training the state of a checkpoint in memory, and returns its number of updates. */
export async function unpackState(folder: MemoryFolder, training: Training): Promise<number> {
  const saved = (await folder.readText(INDEX)) ?? '';
  const checkpoint = await openCheckpoint(folderFiles(folder), saved);
  await loadTraining(checkpoint, training);
  setRandomState(JSON.parse((await folder.readText(RANDOM)) ?? 'null'));
  return checkpoint.step;
}

/** Gives a training all that a checkpoint has of it. */
export async function loadTraining(
  checkpoint: Checkpoint,
  { model, optimizer, states = {} }: Training,
): Promise<void> {
  await loadModel(checkpoint, model);
  if (optimizer !== undefined) await loadOptimizer(checkpoint, model, optimizer);
  await loadStates(checkpoint, states);
}
