import { mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  commonRuns,
  dtypes,
  type HeldChunk,
  type TensorChunk,
  wholeChunk,
} from '@shardwise/core/extend';
import { syncDirectory, writeAt } from '@shardwise/core/node';
import {
  CONFIG_NAME,
  heldPart,
  INDEX_NAME,
  type ModelFiles,
  type ModelWriter,
  weightFile,
} from './model-writer.ts';
import type { Shard } from './shards.ts';

/** Writes to a folder of the disk, which the ranks have in common. Each rank writes to its places in all files. */
export function diskWriter(path: string): ModelWriter {
  return {
    place: path,
    prepare: ({ shards }) => createFiles(path, shards),
    write: ({ shards }, chunks, own) => writeChunks(path, shards, chunks, own),
    publish: (files) => publish(path, files),
    discard: ({ shards }) => removeTemporary(path, shards),
  };
}

/** The name of a file until all ranks have written to it. */
function temporaryPath(path: string, { fileName }: Shard): string {
  return join(path, `${fileName}.unfinished`);
}

async function createFiles(path: string, shards: readonly Shard[]): Promise<string> {
  await mkdir(path, { recursive: true });
  for (const shard of shards) {
    await using file = await open(temporaryPath(path, shard), 'w');
    await writeAt(file, shard.header, 0);
    await file.truncate(shard.byteLength);
  }
  return '';
}

/** Writes the chunks of this rank to their places in the files. One tensor's part is in memory at a time. */
async function writeChunks(
  path: string,
  shards: readonly Shard[],
  chunks: readonly TensorChunk[],
  own: readonly HeldChunk[],
): Promise<void> {
  const held = Map.groupBy(own, ({ name }) => name);
  const byName = Map.groupBy(chunks, ({ name }) => name);
  for (const shard of shards) {
    const here = [...byName].filter(([name]) => shard.byteOffsets.has(name));
    if (here.length === 0) continue;
    await using file = await open(temporaryPath(path, shard), 'r+');
    for (const [name, parts] of here) {
      const start = shard.byteOffsets.get(name) ?? 0;
      for (const chunk of parts) {
        await writeChunk(file, start, chunk, heldPart(held.get(name), chunk));
      }
    }
    await file.sync();
  }
}

async function writeChunk(
  file: Parameters<typeof writeAt>[0],
  fileOffset: number,
  chunk: TensorChunk,
  source: HeldChunk,
): Promise<void> {
  const elementBytes = dtypes[chunk.dtype].bytes;
  const bytes = await source.read();
  const shift = chunk.start - source.start;
  for (const { first, second, count } of commonRuns(wholeChunk(chunk.shape), chunk)) {
    const from = (second + shift) * elementBytes;
    const run = bytes.subarray(from, from + count * elementBytes);
    await writeAt(file, run, fileOffset + first * elementBytes);
  }
}

/** Gives the files their names, and removes weights of an earlier save, which a reader could take for the new ones. */
async function publish(path: string, { shards, index, config }: ModelFiles): Promise<void> {
  // Without index, a reader that comes now finds no model instead of a mixture of two.
  await rm(join(path, INDEX_NAME), { force: true });
  const names = new Set(shards.map(({ fileName }) => fileName));
  for (const name of await readdir(path)) {
    if (weightFile.test(name) && !names.has(name)) await rm(join(path, name));
  }
  for (const shard of shards) {
    await rename(temporaryPath(path, shard), join(path, shard.fileName));
  }
  if (config !== null) await writeFile(join(path, CONFIG_NAME), config);
  if (index !== null) await writeFile(join(path, INDEX_NAME), index);
  await syncDirectory(path);
}

async function removeTemporary(path: string, shards: readonly Shard[]): Promise<void> {
  for (const shard of shards) await rm(temporaryPath(path, shard), { force: true });
}
