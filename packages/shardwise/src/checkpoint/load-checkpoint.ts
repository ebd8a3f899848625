import { requirePath, requireNoTargets } from './check-arguments.ts';
import { diskFiles } from './disk-files.ts';
import { type Checkpoint, openCheckpoint } from './open-checkpoint.ts';

/**
 * Opens the checkpoint in `directory`, or the latest one of a folder of checkpoints or of a run directory. Any
 * strategy and number of ranks may have saved it. Throws CheckpointError if files are missing or cut off.
 * Tensors are checked when they are read. Throws ConfigError for a model or another argument, which
 * loadModel, loadOptimizer and loadStates take.
 */
export async function loadCheckpoint(
  directory: string,
  ...more: readonly never[]
): Promise<Checkpoint> {
  requirePath('checkpoints.load', directory);
  requireNoTargets(more);
  return openCheckpoint(diskFiles, directory);
}
