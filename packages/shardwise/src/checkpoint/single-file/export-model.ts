import { CheckpointError, encodeSafetensorsHeader } from '@shardwise/core/extend';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { diskFiles } from '../places/disk-files.ts';
import { loadCheckpoint } from '../load/load-checkpoint.ts';
import type { Checkpoint } from '../load/open-checkpoint.ts';
import { replaceFile } from '../places/replace-file.ts';
import type { StoredTensor } from '../format/index-file.ts';
import { describeVarying } from '../format/varying.ts';

/**
 * Writes the model of a checkpoint (found as by checkpoints.load) to one safetensors file. As PyTorch expects,
 * shared parameters are in the file under all their names. Only some megabytes of the model are in memory at a
 * time. The file appears when it is complete. Throws CheckpointError.
 */
export async function exportModel(
  checkpointDirectory: string,
  path: string,
  files: CheckpointFiles = diskFiles,
): Promise<void> {
  const checkpoint = await loadCheckpoint(checkpointDirectory);
  const tensors = new Map<string, StoredTensor>();
  for (const name of [...checkpoint.model.names, ...checkpoint.aliases.keys()]) {
    const tensor = checkpoint.model.get(checkpoint.aliases.get(name) ?? name);
    if (tensor?.varying !== undefined) throw varyingError(checkpoint.directory, path, tensor);
    if (tensor !== undefined) tensors.set(name, tensor);
  }
  const asked = `Exporting ${checkpoint.directory} to ${path}`;
  await replaceFile(asked, path, contents(checkpoint, tensors), files);
}

async function* contents(
  checkpoint: Checkpoint,
  tensors: ReadonlyMap<string, StoredTensor>,
): AsyncGenerator<Uint8Array> {
  const { header, places } = encodeSafetensorsHeader(Object.fromEntries(tensors), { format: 'pt' });
  yield header;
  await using chunks = checkpoint.model.open();
  for (const { name } of places) {
    const tensor = tensors.get(name);
    if (tensor !== undefined) yield* chunks.boxes(tensor);
  }
}

function varyingError(from: string, path: string, tensor: StoredTensor): CheckpointError {
  return new CheckpointError(
    {
      asked: `Exporting ${from} to ${path}`,
      found: `${tensor.name}: ${describeVarying(tensor)}`,
      todo: 'Average the parameters over the ranks, or take those of one, and save that model',
    },
    { name: tensor.name, varying: tensor.varying },
  );
}
