import { listCheckpoints as listIn } from '../../checkpoint/places/list-checkpoints.ts';
import { storageFiles } from './storage-files.ts';

/**
 * The folders of the checkpoints in the browser's storage for this page, the latest first. `directory` is a run
 * directory, a folder of checkpoints, or a checkpoint. Checkpoints are listed even if they are not complete.
 * Throws CheckpointError if the browser has no such storage.
 */
export async function listCheckpoints(directory: string): Promise<readonly string[]> {
  return listIn(await storageFiles(), directory);
}

/**
 * Removes a folder of the browser's storage, such as that of a run with all its checkpoints. Throws
 * CheckpointError.
 */
export async function removeCheckpoints(directory: string): Promise<void> {
  await (await storageFiles()).removeDirectory(directory);
}
