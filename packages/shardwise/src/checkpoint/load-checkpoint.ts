import { diskFiles } from './disk-files.ts';
import { type Checkpoint, openCheckpoint } from './open-checkpoint.ts';

/**
 * Opens the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run directory. Any
 * strategy and number of ranks may have saved it. Throws CheckpointError if files are missing or cut off.
 * Tensors are checked when they are read.
 */
export function loadCheckpoint(directory: string): Promise<Checkpoint> {
  return openCheckpoint(diskFiles, directory);
}
