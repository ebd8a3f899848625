import { listCheckpoints as listIn } from '../../checkpoint/list-checkpoints.ts';
import { storageFiles } from './storage-files.ts';

/**
 * The checkpoints that the browser's storage has for this page in a folder, in that of a run by default: their folders, the latest
 * first. Throws CheckpointError where there is no such storage.
 */
export async function listCheckpoints(directory: string): Promise<readonly string[]> {
  return listIn(await storageFiles(), directory);
}

/** Removes a folder of the browser's storage, as that of a run with all its checkpoints. Throws CheckpointError. */
export async function removeCheckpoints(directory: string): Promise<void> {
  await (await storageFiles()).removeDirectory(directory);
}
