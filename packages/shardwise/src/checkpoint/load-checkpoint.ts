import { diskFiles } from './disk-files.ts';
import { type Checkpoint, openCheckpoint } from './open-checkpoint.ts';

/**
 * Opens the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run
 * directory, whatever strategy and number of ranks saved it. Throws CheckpointError where files are
 * missing or cut; tensors are checked when they are read.
 */
export function loadCheckpoint(directory: string): Promise<Checkpoint> {
  return openCheckpoint(diskFiles, directory);
}
