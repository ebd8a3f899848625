import {
  requireNoTargets,
  type Checkpoint,
  openCheckpoint,
} from '../../checkpoint/load/open-checkpoint.ts';
import type { CheckpointSource } from './checkpoint-source.ts';
import { pickedFiles } from './picked-files.ts';
import { storageFiles } from './storage-files.ts';

/**
 * Opens a checkpoint, or the latest one of a folder of checkpoints or of a run directory. It may come from any
 * strategy and number of ranks, from a page or from `shardwise run`. loadModel, loadOptimizer and loadStates
 * read it. Throws CheckpointError if files are missing or cut off, and ConfigError for a
 * model or another argument. Tensors are checked when they are read.
 */
export async function loadCheckpoint(
  source: CheckpointSource,
  ...more: readonly never[]
): Promise<Checkpoint> {
  requireNoTargets(more);
  if (typeof source === 'string') return openCheckpoint(await storageFiles(), source);
  const { files, directory } = await pickedFiles(source);
  return openCheckpoint(files, directory);
}
