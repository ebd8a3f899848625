import { dirname, join } from 'node:path';
import { CheckpointError, encodeSafetensorsHeader } from '@shardwise/core/extend';
import { temporaryName } from './checkpoint-folders.ts';
import { type DurableFiles, durableFiles } from './durable-files.ts';
import { type Checkpoint, loadCheckpoint } from './load-checkpoint.ts';
import type { StoredTensor } from './state-file.ts';
import { describeVarying } from './varying.ts';

/**
 * Writes the model of a checkpoint (found as loadCheckpoint finds it) to one safetensors file, in
 * which shared parameters stand under all their names, as PyTorch expects. Some megabytes of it are
 * in memory at a time. The file is there when it is whole. Throws CheckpointError.
 */
export async function exportModel(
  checkpointDirectory: string,
  path: string,
  files: DurableFiles = durableFiles,
): Promise<void> {
  const checkpoint = await loadCheckpoint(checkpointDirectory);
  const tensors = new Map<string, StoredTensor>();
  for (const name of [...checkpoint.model.names, ...checkpoint.aliases.keys()]) {
    const tensor = checkpoint.model.get(checkpoint.aliases.get(name) ?? name);
    if (tensor?.varying !== undefined) throw varyingError(checkpoint.directory, path, tensor);
    if (tensor !== undefined) tensors.set(name, tensor);
  }
  const temporary = join(dirname(path), temporaryName());
  try {
    await files.writeFile(temporary, contents(checkpoint, tensors));
    await files.rename(temporary, path);
    await files.syncDirectory(dirname(path));
  } catch (cause) {
    await files.removeDirectory(temporary).catch(() => undefined);
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(
      {
        asked: `Exporting ${checkpoint.directory} to ${path}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Give a file in a folder that is there and has room',
      },
      { path },
      { cause },
    );
  }
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
