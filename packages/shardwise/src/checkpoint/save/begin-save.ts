import {
  type HeldChunk,
  onAllRanks,
  planChunks,
  type ProcessGroup,
  SaveFailure,
  type TensorChunk,
} from '@shardwise/core/extend';
import { z } from 'zod';
import {
  checksumsOf,
  checksumsSchema,
  type DifferentBuffers,
  findDifferentBuffers,
} from './different-buffers.ts';
import type { RankContents } from './checkpoint-contents.ts';
import { freeName, temporaryName } from '../places/checkpoint-folders.ts';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { requireEqual, saveAgain } from './require-equal.ts';
import { requireEqualSettings, settingsOf, settingsSchema } from './require-equal-settings.ts';
import { readText } from '../places/read-text.ts';
import { chunkSchema, latestName, type SectionName, sectionNames } from '../format/index-file.ts';
import { type OwnChunk, ownChunks, stageChunks } from './write-chunks.ts';

export interface SaveRequest {
  readonly files: CheckpointFiles;
  readonly directory: string;
  readonly step: number;
  /** The checkpoints that this run found in the directory or began to write there. Only rank 0 adds to it. */
  readonly known: Set<string>;
  /** The number of checkpoints to keep. Undefined keeps all. */
  readonly keep: number | undefined;
  /** Returns what this rank saves. It may throw. */
  readonly contents: () => Promise<RankContents>;
  /** Whether everything is copied first, because the model may change before all of it is written. */
  readonly stage: boolean;
}

/** A save that all ranks have agreed on. */
export interface BegunSave extends Omit<SaveRequest, 'contents' | 'stage'> {
  readonly contents: RankContents;
  /** The buffers of the model that are not the same on all ranks. */
  readonly differentBuffers: DifferentBuffers | undefined;
  /** What was asked, for error messages. */
  readonly asked: string;
  /** The folder in which the ranks write until it gets its final name. */
  readonly temporary: string;
  readonly name: string;
  /** The chunks that all ranks together hold. */
  readonly tensors: Readonly<Record<SectionName, readonly TensorChunk[]>>;
  /** The chunks that this rank writes. */
  readonly chunks: Readonly<Record<SectionName, readonly OwnChunk[]>>;
}

const placeSchema = z.object({ temporary: z.string(), name: z.string() });
const chunks = z.array(chunkSchema);
const heldSchema = z.object({
  model: chunks,
  optimizer: chunks,
  states: chunks,
  settings: z.array(settingsSchema),
  buffers: checksumsSchema,
});

/**
 * Agrees with the other ranks on who writes what, and where. It is a collective. If it throws CheckpointError, it does
 * so on all ranks, and leaves no files behind.
 */
export async function beginSave(group: ProcessGroup, request: SaveRequest): Promise<BegunSave> {
  const { contents: makeContents, stage, ...common } = request;
  const { directory, files } = common;
  const asked = `Saving a checkpoint of step ${common.step} to ${directory}`;
  const contentsOfRank: RankContents[] = [];
  const held = await onAllRanks(group, { asked, todo: saveAgain }, heldSchema, async () => {
    const contents = await makeContents();
    contentsOfRank.push(contents);
    const { model, optimizer, states } = contents.heldChunks;
    return {
      model: model.map(chunkOf),
      optimizer: optimizer.map(chunkOf),
      states: states.map(chunkOf),
      settings: contents.groups.map((each) => settingsOf(each, files)),
      buffers: group.size > 1 ? await checksumsOf(contents.buffers, files) : {},
    };
  });
  requireEqualSettings(
    asked,
    held.map(({ settings }) => settings),
  );
  const chunksOfRanks = held.map((contents) =>
    sectionNames.flatMap((section) => contents[section]),
  );
  const own = contentsOfRank.flatMap(({ heldChunks }) =>
    sectionNames.flatMap((each) => heldChunks[each]),
  );
  await requireEqual(group, asked, files, chunksOfRanks, own);
  const [place] = await onAllRanks(
    group,
    { asked, todo: saveAgain },
    placeSchema.nullable(),
    async () => (group.rank === 0 ? makePlace(common) : null),
  );
  const { temporary, name } = placeSchema.parse(place);
  const tensors = {
    model: held.flatMap(({ model }) => model),
    optimizer: held.flatMap(({ optimizer }) => optimizer),
    states: held.flatMap(({ states }) => states),
  };
  const differentBuffers = findDifferentBuffers(held.map(({ buffers }) => buffers));
  const begun: BegunSave[] = [];
  try {
    await onAllRanks(group, { asked, todo: saveAgain }, z.null(), async () => {
      for (const contents of contentsOfRank) {
        const take = async (section: SectionName): Promise<readonly OwnChunk[]> => {
          const chunks = planChunks(held.map((each) => each[section]))[group.rank] ?? [];
          const own = ownChunks(chunks, contents.heldChunks[section]);
          return stage ? stageChunks(own) : own;
        };
        const chunks = {
          model: await take('model'),
          optimizer: await take('optimizer'),
          states: await take('states'),
        };
        begun.push({
          ...common,
          asked,
          temporary,
          name,
          contents,
          differentBuffers,
          tensors,
          chunks,
        });
      }
      return null;
    });
  } catch (error) {
    if (group.rank === 0) await files.removeDirectory(temporary).catch(() => undefined);
    throw error;
  }
  const [first] = begun;
  if (first === undefined) throw new RangeError('a save that did not begin');
  return first;
}

/** Throws SaveFailure if another run writes to the folder too. */
export async function checkSoleWriter(
  files: CheckpointFiles,
  directory: string,
  known: ReadonlySet<string>,
): Promise<void> {
  const latest = await latestIn(files, directory);
  if (latest === undefined || known.has(latest)) return;
  throw new SaveFailure(
    `another run has saved ${latest} there since this one began to`,
    'Give each run a folder of its own; both have whole checkpoints there',
  );
}

/** Throws SaveFailure instead of the error of a folder whose name another run has taken. */
export async function unlessTaken(name: string, work: Promise<void>): Promise<void> {
  try {
    await work;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
    throw new SaveFailure(
      `another run has saved ${name} there meanwhile`,
      'Give each run a folder of its own; that checkpoint is whole',
    );
  }
}

async function latestIn(files: CheckpointFiles, directory: string): Promise<string | undefined> {
  const text = await readText(files, files.join(directory, latestName)).catch(() => undefined);
  return text?.trim();
}

async function makePlace({
  files,
  directory,
  step,
  known,
}: Pick<SaveRequest, 'files' | 'directory' | 'step' | 'known'>): Promise<
  z.infer<typeof placeSchema>
> {
  await files.makeDirectory(directory);
  if (known.size === 0) known.add((await latestIn(files, directory)) ?? '');
  await checkSoleWriter(files, directory, known);
  const name = freeName(step, await files.list(directory));
  known.add(name);
  if (files.claim !== undefined) {
    const claimed = files.join(directory, name);
    await unlessTaken(name, files.claim(claimed));
    return { temporary: claimed, name };
  }
  const temporary = files.join(directory, temporaryName(files));
  await files.makeDirectory(temporary);
  return { temporary, name };
}

function chunkOf({ name, dtype, shape, varying, box, start, stop }: HeldChunk): TensorChunk {
  const chunk = { name, dtype, shape, box, start, stop };
  return varying === undefined ? chunk : { ...chunk, varying };
}
