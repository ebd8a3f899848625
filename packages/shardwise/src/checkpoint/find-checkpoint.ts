import { readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { CheckpointError } from '@shardwise/core/extend';
import { isCheckpointName } from './checkpoint-folders.ts';
import { type CheckpointState, decodeState } from './state-file.ts';

export interface FoundCheckpoint {
  readonly folder: string;
  readonly state: CheckpointState;
}

/** Of names, shapes and places, and what scripts put in `extra`; no tensor's contents. */
const MAX_STATE_BYTES = 256 * 1024 * 1024;

/**
 * Which checkpoint loadCheckpoint would open: that of `directory`, or the latest one of a folder of
 * checkpoints or of a run directory. Throws CheckpointError.
 */
export async function findCheckpoint(directory: string): Promise<FoundCheckpoint> {
  const found = await lookForCheckpoint(directory);
  if (found !== undefined) return found;
  const isFile = (await stat(directory).catch(() => undefined))?.isFile() === true;
  if (isFile && ['latest', 'state.json'].includes(basename(directory))) {
    throw new CheckpointError(
      {
        asked: `Loading a checkpoint from ${directory}`,
        found: 'it is a file of checkpoints, no folder',
        todo: `Give the folder that has it: ${dirname(directory)}`,
      },
      { directory },
    );
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

/** Undefined where there is none. Throws CheckpointError for a broken one. */
export async function lookForCheckpoint(directory: string): Promise<FoundCheckpoint | undefined> {
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
  return undefined;
}

/** What the file "latest" of a folder names; undefined where nothing was saved. Throws CheckpointError. */
export async function latestOf(directory: string): Promise<string | undefined> {
  const name = (await readSmallFile(join(directory, 'latest'), 256))?.trim();
  if (name === undefined) return undefined;
  if (isCheckpointName(name)) return join(directory, name);
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
