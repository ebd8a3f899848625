import { CheckpointError } from '@shardwise/core/extend';
import type { ReadableFiles } from './checkpoint-files.ts';
import { isCheckpointName } from './checkpoint-folders.ts';
import { readText } from './read-text.ts';
import { type CheckpointState, decodeState, latestName, stateName } from '../format/index-file.ts';

export interface FoundCheckpoint {
  readonly folder: string;
  readonly state: CheckpointState;
}

/**
 * The limit of a state file. It contains names, shapes, places and the `extra` of scripts, but no contents of tensors.
 */
const MAX_STATE_BYTES = 256 * 1024 * 1024;

/**
 * Finds the checkpoint that openCheckpoint would open: the one in `directory`, or the latest one of a folder of
 * checkpoints or of a run directory. Throws CheckpointError.
 */
export async function findCheckpoint(
  files: ReadableFiles,
  directory: string,
): Promise<FoundCheckpoint> {
  const found = await lookForCheckpoint(files, directory);
  if (found !== undefined) return found;
  const isFile = (await files.find(directory))?.isFile === true;
  const [, parent = '.'] = OF_CHECKPOINTS.exec(directory) ?? [];
  if (isFile && OF_CHECKPOINTS.test(directory)) {
    throw new CheckpointError(
      {
        asked: `Loading a checkpoint from ${directory}`,
        found: 'it is a file of checkpoints, no folder',
        todo: `Give the folder that has it: ${parent}`,
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

/** Matches the path of a file that only checkpoints and folders of checkpoints have. */
const OF_CHECKPOINTS = /^(?:(.+)[\\/])?(?:latest|state\.json)$/;

/** Does what findCheckpoint does, but returns undefined if there is none. Throws CheckpointError for a broken one. */
export async function lookForCheckpoint(
  files: ReadableFiles,
  directory: string,
): Promise<FoundCheckpoint | undefined> {
  for (const folder of [
    directory,
    await latestOf(files, directory),
    await latestOf(files, files.join(directory, 'checkpoints')),
  ]) {
    if (folder === undefined) continue;
    const path = files.join(folder, stateName);
    const text = await readText(files, path, MAX_STATE_BYTES);
    if (text !== undefined) return { folder, state: decodeState(text, path) };
  }
  return undefined;
}

/** Returns the folder that the file "latest" names, or undefined if nothing was saved. Throws CheckpointError. */
export async function latestOf(
  files: ReadableFiles,
  directory: string,
): Promise<string | undefined> {
  const name = (await readText(files, files.join(directory, latestName), 256))?.trim();
  if (name === undefined) return undefined;
  if (isCheckpointName(name)) return files.join(directory, name);
  throw new CheckpointError(
    {
      asked: `Loading a checkpoint from ${directory}`,
      found: 'its file "latest" names no checkpoint',
      todo: 'Give one of its step-… folders instead',
    },
    { directory },
  );
}
