import { open, readFile, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  CheckpointError,
  decodeSafetensorsHeader,
  safetensorsHeaderBytes,
  type HostArray,
  type HostArrays,
} from '@shardwise/core';
import {
  decodeState,
  type CheckpointState,
  type FileDigest,
  type JsonValue,
} from './state-file.ts';

/** A checkpoint in host memory. */
export interface Checkpoint {
  /** The folder it was read from. */
  readonly directory: string;
  readonly step: number;
  readonly model: HostArrays;
  readonly optimizer: HostArrays;
  readonly extra: JsonValue;
  readonly worldSize: number;
}

/** Node refuses calls of 2 GiB and more. */
const MAX_READ_BYTES = 2 ** 30;
/** A small file all the same: it holds what scripts put in `extra`. */
const MAX_STATE_BYTES = 256 * 1024 * 1024;

/**
 * Reads the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run
 * directory. Every byte is checked against what was written. Throws CheckpointError. Whether it fits a model is for
 * `model.loadStateDict` to say.
 */
export async function loadCheckpoint(directory: string): Promise<Checkpoint> {
  const { folder, state } = await findCheckpoint(directory);
  const model = await readArrays(join(folder, 'model.safetensors'), state.files.model);
  const optimizer = await readArrays(join(folder, 'optimizer.safetensors'), state.files.optimizer);
  const { step, extra, worldSize } = state;
  return { directory: folder, step, model, optimizer, extra, worldSize };
}

/** Which checkpoint loadCheckpoint would read; cheap. */
export async function findCheckpoint(
  directory: string,
): Promise<{ readonly folder: string; readonly state: CheckpointState }> {
  for (const folder of [
    directory,
    await latestOf(directory),
    await latestOf(join(directory, 'checkpoints')),
  ]) {
    if (folder === undefined) continue;
    const path = join(folder, 'state.json');
    const text = await readSmallFile(path, MAX_STATE_BYTES);
    if (text !== undefined) return { folder, state: decodeState(text, path) };
  }
  throw new CheckpointError(
    {
      asked: `Loading a checkpoint from ${directory}`,
      found: 'there is no state.json, and no "latest" that names a folder with one',
      todo: 'Give a folder that saveCheckpoint wrote to',
    },
    { directory },
  );
}

/** Undefined where nothing was saved. */
async function latestOf(directory: string): Promise<string | undefined> {
  const name = (await readSmallFile(join(directory, 'latest'), 256))?.trim();
  if (name === undefined) return undefined;
  if (/^step-\d{6,}(-\d+)?$/.test(name)) return join(directory, name);
  throw new CheckpointError(
    {
      asked: `Loading a checkpoint from ${directory}`,
      found: 'its file "latest" names no checkpoint',
      todo: 'Give one of its step-… folders instead',
    },
    { directory },
  );
}

async function readSmallFile(path: string, limitBytes: number): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined || !found.isFile()) return undefined;
  if (found.size > limitBytes) {
    throw new CheckpointError(
      {
        asked: `Reading ${path}`,
        found: `it has ${found.size} bytes, the limit is ${limitBytes}`,
        todo: 'Load another checkpoint',
      },
      { path, foundBytes: found.size, limitBytes },
    );
  }
  return readFile(path, 'utf8');
}

async function readArrays(path: string, digest: FileDigest): Promise<HostArrays> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  if (size !== digest.byteLength) {
    throw damaged(path, `expected ${digest.byteLength} bytes, found ${size}`);
  }
  const start = await readBytes(file, path, 0, Math.min(8, size));
  const header = await readBytes(file, path, 0, safetensorsHeaderBytes(start, size));
  let sum = crc32(header);
  const arrays: [string, HostArray][] = [];
  const { entries } = decodeSafetensorsHeader(header, size);
  const inFileOrder = Object.entries(entries).sort(
    ([, a], [, b]) => a.byteOffset - b.byteOffset || a.byteLength - b.byteLength,
  );
  for (const [name, { dtype, shape, byteOffset, byteLength }] of inFileOrder) {
    const bytes = await readBytes(file, path, byteOffset, byteLength);
    sum = crc32(bytes, sum);
    arrays.push([name, { dtype, shape, bytes }]);
  }
  if (sum !== digest.crc32) {
    throw damaged(path, `expected CRC-32 ${digest.crc32}, found ${sum}`);
  }
  return Object.fromEntries(arrays);
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (cause) {
    throw damaged(path, 'it cannot be opened', cause);
  }
}

async function readBytes(
  file: FileHandle,
  path: string,
  byteOffset: number,
  byteLength: number,
): Promise<Uint8Array> {
  const bytes = new Uint8Array(byteLength);
  let done = 0;
  while (done < byteLength) {
    const length = Math.min(byteLength - done, MAX_READ_BYTES);
    const { bytesRead } = await file.read(bytes, done, length, byteOffset + done);
    if (bytesRead === 0) {
      throw damaged(path, `expected ${byteLength} bytes at ${byteOffset}, found ${done}`);
    }
    done += bytesRead;
  }
  return bytes;
}

function damaged(path: string, found: string, cause?: unknown): CheckpointError {
  return new CheckpointError(
    { asked: `Reading ${path}`, found, todo: 'Load an earlier checkpoint' },
    { path },
    cause === undefined ? {} : { cause },
  );
}
