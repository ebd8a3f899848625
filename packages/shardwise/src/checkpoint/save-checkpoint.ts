import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { ConfigError, encodeSafetensorsHeader, type HostArrays } from '@shardwise/core';
import { durableFiles, type DurableFiles } from './durable-files.ts';
import { encodeState, type FileDigest, type JsonValue } from './state-file.ts';

/** What a run needs to continue. */
export interface CheckpointContents {
  /** Updates done so far. */
  readonly step: number;
  readonly model: HostArrays;
  readonly optimizer?: HostArrays;
  /** States of the sampler, generators and schedule, and whatever else the script keeps. */
  readonly extra?: JsonValue;
  /** Ranks that made it. Default 1. */
  readonly worldSize?: number;
}

const TEMPORARY_PREFIX = '.writing-';

/**
 * Writes `directory/step-N` (model.safetensors, optimizer.safetensors, state.json) and lets
 * `directory/latest` name it. A crash at any moment leaves the checkpoint before it in force.
 * One rank calls this. Returns the folder written.
 */
export async function saveCheckpoint(
  directory: string,
  contents: CheckpointContents,
): Promise<string> {
  return writeCheckpoint(durableFiles, directory, contents);
}

/** saveCheckpoint on a given disk. */
export async function writeCheckpoint(
  files: DurableFiles,
  directory: string,
  { step, model, optimizer = {}, extra = null, worldSize = 1 }: CheckpointContents,
): Promise<string> {
  if (!Number.isSafeInteger(step) || step < 0) {
    throw new ConfigError(
      {
        asked: `Saving a checkpoint to ${directory}`,
        found: `step is ${step}`,
        todo: 'Give the number of updates done so far',
      },
      { step },
    );
  }
  await files.makeDirectory(directory);
  const existing = await readdir(directory);
  const temporary = join(directory, `${TEMPORARY_PREFIX}${randomUUID()}`);
  await files.makeDirectory(temporary);
  const state = encodeState({
    step,
    worldSize,
    savedAt: new Date().toISOString(),
    files: {
      model: await writeArrays(files, join(temporary, 'model.safetensors'), model),
      optimizer: await writeArrays(files, join(temporary, 'optimizer.safetensors'), optimizer),
    },
    extra,
  });
  await files.writeFile(join(temporary, 'state.json'), [state]);
  await files.syncDirectory(temporary);

  const name = freeName(step, existing);
  await files.rename(temporary, join(directory, name));
  const pointer = join(directory, `${TEMPORARY_PREFIX}latest`);
  await files.writeFile(pointer, [new TextEncoder().encode(`${name}\n`)]);
  await files.rename(pointer, join(directory, 'latest'));
  await files.syncDirectory(directory);

  const leftovers = existing.filter((entry) => entry.startsWith(TEMPORARY_PREFIX));
  for (const entry of leftovers) await files.removeDirectory(join(directory, entry));
  return join(directory, name);
}

async function writeArrays(
  files: DurableFiles,
  path: string,
  arrays: HostArrays,
): Promise<FileDigest> {
  const { header, names } = encodeSafetensorsHeader(arrays, { format: 'pt' });
  let digest: FileDigest = { byteLength: 0, crc32: 0 };
  function* chunks(): Generator<Uint8Array> {
    for (const chunk of [header, ...names.map((name) => arrays[name]?.bytes)]) {
      if (chunk === undefined) continue;
      digest = {
        byteLength: digest.byteLength + chunk.byteLength,
        crc32: crc32(chunk, digest.crc32),
      };
      yield chunk;
    }
  }
  await files.writeFile(path, chunks());
  return digest;
}

/** A folder that is there stays: it may be the one that `latest` names. */
function freeName(step: number, existing: readonly string[]): string {
  const name = `step-${String(step).padStart(6, '0')}`;
  let candidate = name;
  for (let attempt = 2; existing.includes(candidate); attempt += 1) {
    candidate = `${name}-${attempt}`;
  }
  return candidate;
}
