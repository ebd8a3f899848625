import {
  CheckpointError,
  type ModelFolder,
  safetensorsSource,
  type TensorSource,
} from '@shardwise/core/extend';

/** The names that weights have in a folder of Hugging Face, in the order in which they are looked for. */
const names = ['model.safetensors', 'model.safetensors.index.json'] as const;

/**
 * Opens the weights of a folder: the file of this name, or the first of those that Hugging Face's folders have. Throws
 * CheckpointError if there is none, or if a file is damaged.
 */
export async function openWeights(folder: ModelFolder, file?: string): Promise<TensorSource> {
  const name = file ?? (await findName(folder));
  return safetensorsSource(folder, name);
}

async function findName(folder: ModelFolder): Promise<string> {
  for (const name of names) {
    const found = await folder.open(name);
    if (found === undefined) continue;
    await found.close();
    return name;
  }
  throw new CheckpointError(
    {
      asked: `to load the weights of ${folder.place}`,
      found: `none of ${names.join(', ')} in it`,
      todo: 'Give the folder of a model, or name the file',
    },
    { place: folder.place },
  );
}
