import { setRandomState } from '@shardwise/core';
import { type HeldChunk, TensorStateError } from '@shardwise/core/extend';
import { checkpointIn } from '../../checkpoint/load/open-checkpoint.ts';
import {
  decodeState,
  encodeState,
  fileName,
  type SectionName,
  stateName,
  type StoredSection,
} from '../../checkpoint/format/index-file.ts';
import { bucketFiles, folderFiles } from '../../checkpoint/places/folder-files.ts';
import { MemoryFolder } from '../../checkpoint/places/memory-folder.ts';
import { writeChunks } from '../../checkpoint/save/write-chunks.ts';
import type { CopiedState } from './copied-state.ts';
import { contentsOf, partsOf } from './parts-of.ts';
import { loadTraining, type Training } from './training.ts';

const PLACE = 'the memory of the ranks';
const RANDOM = 'random.json';
const PARTS = 'parts.json';

/** Writes the state of a rank as the checkpoint of a world of one rank, whose tensors may be parts. */
export async function packState(state: CopiedState): Promise<MemoryFolder> {
  const folder = new MemoryFolder(PLACE);
  const { step, random, absent } = state;
  const { heldChunks, aliases, groups, extra, rankExtra, states } = state.contents;
  const write = (section: SectionName): Promise<StoredSection> =>
    writeSection(folder, section, heldChunks[section]);
  const model = await write('model');
  const optimizer = await write('optimizer');
  const saved = encodeState({
    step,
    worldSize: 1,
    savedAt: new Date().toISOString(),
    model: { ...model, tensors: [...model.tensors, ...absent.model], aliases },
    optimizer: {
      ...optimizer,
      tensors: [...optimizer.tensors, ...absent.optimizer],
      groups,
    },
    states: await write('states'),
    extra,
    rankExtras: [rankExtra],
    rankStates: [states],
  });
  const putJson = (name: string, value: unknown): void =>
    folder.put(name, new TextEncoder().encode(JSON.stringify(value)));
  folder.put(stateName, saved);
  putJson(RANDOM, random);
  putJson(PARTS, partsOf({ ...heldChunks, states: [] }));
  return folder;
}

async function writeSection(
  folder: MemoryFolder,
  section: SectionName,
  held: readonly HeldChunk[],
): Promise<StoredSection> {
  if (held.length === 0) return { fileBytes: [0], tensors: [] };
  const files = bucketFiles(folder);
  const path = files.join(PLACE, fileName(section, 0, 1));
  const written = await writeChunks(files, path, 0, held);
  const chunksOf = Map.groupBy(written.chunks, ({ name }) => name);
  const tensors = new Map(held.map((chunk) => [chunk.name, chunk]));
  return {
    fileBytes: [written.byteLength],
    tensors: [...tensors.values()].map(({ name, dtype, shape }) => ({
      name,
      dtype,
      shape,
      chunks: (chunksOf.get(name) ?? []).map(({ chunk }) => chunk),
    })),
  };
}

/**
 * Gives the training the state of a checkpoint in memory, and returns its number of updates. Throws TensorStateError if the
 * training has other parts of tensors than those that are there.
 */
export async function unpackState(folder: MemoryFolder, training: Training): Promise<number> {
  const text = (await folder.readText(stateName)) ?? '';
  const state = decodeState(text, `${PLACE}/${stateName}`, true);
  const checkpoint = await checkpointIn(folderFiles(folder), { folder: PLACE, state });
  await loadTraining(checkpoint, training);
  // What other objects save may have another form before their next use.
  const { heldChunks } = await contentsOf({ ...training, states: {} }, checkpoint.step);
  const parts = partsOf(heldChunks);
  if (parts !== JSON.parse((await folder.readText(PARTS)) ?? 'null')) throw otherParts();
  setRandomState(JSON.parse((await folder.readText(RANDOM)) ?? 'null'));
  return checkpoint.step;
}

function otherParts(): TensorStateError {
  return new TensorStateError({
    asked: 'resume() with the state of ranks that trained before',
    found: 'a training of which this rank has other parts than they had',
    todo: 'Make the same model, optimizer and strategy on every number of replicas',
  });
}
