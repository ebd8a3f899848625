import {
  CheckpointSaver,
  type CheckpointSaverOptions,
} from '../../checkpoint/save/checkpoint-saver.ts';
import { storageFiles } from './storage-files.ts';

/**
 * Makes a saver that writes a run's checkpoints to the browser's storage. Throws CheckpointError if the browser has
 * none.
 */
export async function pageSaver(
  options: Omit<CheckpointSaverOptions, 'files'>,
): Promise<CheckpointSaver> {
  return new CheckpointSaver({ ...options, files: await storageFiles() });
}
