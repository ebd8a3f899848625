import { requirePath } from '../format/check-arguments.ts';
import { diskFiles } from '../places/disk-files.ts';
import { requireNoTargets, type Checkpoint, openCheckpoint } from './open-checkpoint.ts';

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

/**
 * Throws CheckpointError if files of the checkpoint in `folder` are missing, broken or cut off. With `contents`, it
 * also reads all files and verifies every byte.
 */
export async function verifyCheckpoint(
  folder: string,
  { contents }: { readonly contents: boolean },
): Promise<void> {
  const { model, optimizer, states } = await loadCheckpoint(folder);
  if (!contents) return;
  for (const section of [model, optimizer, states]) {
    await using files = section.open();
    for (const name of section.names) {
      const tensor = section.get(name);
      if (tensor === undefined) continue;
      const boxes = files.boxes(tensor);
      while ((await boxes.next()).done !== true);
    }
  }
}
