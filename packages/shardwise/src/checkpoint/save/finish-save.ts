import { onAllRanks, type ProcessGroup, SaveFailure } from '@shardwise/core/extend';
import { z } from 'zod';
import { saveAgain } from './require-equal.ts';
import { type BegunSave, checkSoleWriter, unlessTaken } from './begin-save.ts';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { prune, removeLeftovers, temporaryName } from '../places/checkpoint-folders.ts';
import {
  encodeState,
  fileName,
  latestName,
  type SectionName,
  sectionNames,
  storedChunkSchema,
  type StoredSection,
  stateName,
  storedStateSchema,
} from '../format/index-file.ts';
import { writeChunks, type WrittenFile } from './write-chunks.ts';

const fileSchema: z.ZodType<WrittenFile> = z.object({
  byteLength: z.int(),
  chunks: z.array(z.object({ name: z.string(), chunk: storedChunkSchema })),
});
const writtenSchema = z.object({
  model: fileSchema,
  optimizer: fileSchema,
  states: fileSchema,
  rankExtra: z.json(),
  rankState: z.record(z.string(), storedStateSchema),
});
type Written = z.infer<typeof writtenSchema>;

/**
 * Writes the files of a save and returns the checkpoint's folder. It is a collective. Every rank writes and syncs its
 * files. Then rank 0 writes the index and gives the folder its name. Throws CheckpointError on all ranks alike. In that
 * case the previous checkpoint stays the latest.
 */
export async function finishSave(group: ProcessGroup, save: BegunSave): Promise<string> {
  const { asked, files, temporary, directory, name } = save;
  try {
    const written = await onAllRanks(group, { asked, todo: saveAgain }, writtenSchema, () =>
      writeOwn(group, save),
    );
    await onAllRanks(group, { asked, todo: saveAgain }, z.null(), async () => {
      if (group.rank === 0) await publish(save, written);
      return null;
    });
  } catch (error) {
    if (group.rank === 0) await files.removeDirectory(temporary).catch(() => undefined);
    throw error;
  }
  return files.join(directory, name);
}

async function writeOwn({ rank, size }: ProcessGroup, save: BegunSave): Promise<Written> {
  const { files, temporary, chunks, contents } = save;
  const write = async (section: SectionName): Promise<WrittenFile> => {
    if (chunks[section].length === 0) return { byteLength: 0, chunks: [] };
    const path = files.join(temporary, fileName(section, rank, size));
    return writeChunks(files, path, rank, chunks[section]);
  };
  const model = await write('model');
  const optimizer = await write('optimizer');
  const states = await write('states');
  await files.syncDirectory(temporary);
  const { rankExtra, states: rankState } = contents;
  return { model, optimizer, states, rankExtra, rankState };
}

async function publish(save: BegunSave, written: readonly Written[]): Promise<void> {
  const { files, directory, temporary, name, step, contents, keep } = save;
  const state = encodeState({
    step,
    worldSize: written.length,
    savedAt: new Date().toISOString(),
    model: { ...sectionOf('model', save, written), aliases: contents.aliases },
    optimizer: { ...sectionOf('optimizer', save, written), groups: contents.groups },
    states: sectionOf('states', save, written),
    extra: contents.extra,
    rankExtras: written.map(({ rankExtra }) => rankExtra),
    rankStates: written.map(({ rankState }) => rankState),
  });
  await checkPresence(files, temporary, written);
  await checkSoleWriter(files, directory, save.known);
  await files.writeFile(files.join(temporary, stateName), [state]);
  await files.syncDirectory(temporary);
  const folder = files.join(directory, name);
  await unlessTaken(name, files.publish(temporary, folder, stateName));
  const pointer = files.join(directory, temporaryName(files));
  await files.writeFile(pointer, [new TextEncoder().encode(`${name}\n`)]);
  await files.rename(pointer, files.join(directory, latestName));
  await files.syncDirectory(directory);

  await removeLeftovers(files, directory);
  if (keep !== undefined) await prune(files, directory, keep, name);
}

function sectionOf(
  section: SectionName,
  { tensors }: BegunSave,
  written: readonly Written[],
): StoredSection {
  const chunks = Map.groupBy(
    written.flatMap((each) => each[section].chunks),
    ({ name }) => name,
  );
  const different = new Map(tensors[section].map((tensor) => [tensor.name, tensor]));
  return {
    fileBytes: written.map((each) => each[section].byteLength),
    tensors: [...different.values()].map(({ name, dtype, shape, varying }) => ({
      name,
      dtype,
      shape,
      ...(varying === undefined ? {} : { varying }),
      chunks: (chunks.get(name) ?? [])
        .map(({ chunk }) => chunk)
        .toSorted((a, b) => a.start - b.start),
    })),
  };
}

/**
 * Checks that rank 0 sees the files of all ranks. Ranks on other hosts may have written to a local folder of the same
 * name.
 */
async function checkPresence(
  files: CheckpointFiles,
  temporary: string,
  written: readonly Written[],
): Promise<void> {
  for (const [rank, each] of written.entries()) {
    for (const section of sectionNames) {
      const { byteLength } = each[section];
      if (byteLength === 0) continue;
      const name = fileName(section, rank, written.length);
      const found = await files.find(files.join(temporary, name));
      if (found?.byteLength === byteLength) continue;
      throw new SaveFailure(
        `rank ${rank} has written ${name} with ${byteLength} bytes, and rank 0 finds ${found === undefined ? 'no such file' : `${found.byteLength} bytes`}`,
        'Save to a folder that all hosts share',
      );
    }
  }
}
