import { type CheckpointPlace, readableAt, requirePlace } from '../places/checkpoint-place.ts';
import { requireNoTargets, type Checkpoint, openCheckpoint } from './open-checkpoint.ts';

/**
 * Opens the checkpoint at a place, or the latest one of a folder of checkpoints or of a run directory. A place is a path,
 * a URL of http or https, an address such as `s3://bucket/runs/1`, or another folder. Any
 * strategy and number of ranks may have saved it. Throws CheckpointError if files are missing or cut off.
 * Tensors are checked when they are read. Throws ConfigError for a model or another argument, which
 * loadModel, loadOptimizer and loadStates take.
 */
export async function loadCheckpoint(
  place: CheckpointPlace,
  ...more: readonly never[]
): Promise<Checkpoint> {
  requirePlace('checkpoints.load', place);
  requireNoTargets(more);
  const { files, directory } = readableAt(place);
  return openCheckpoint(files, directory);
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
