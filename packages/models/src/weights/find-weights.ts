import {
  CheckpointError,
  isIndexName,
  type ModelFolder,
  parseWeightMap,
  pathIn,
  safetensorsSource,
  type TensorSource,
} from '@shardwise/core/extend';
import { ggufSource } from './gguf/gguf-source.ts';
import { joinedSource } from './joined-source.ts';
import { torchSource } from './torch-source.ts';
import { sameVersions } from './same-versions.ts';

/** The names that weights have in a folder of Hugging Face, in the order in which they are looked for. */
const names = [
  'model.safetensors',
  'model.safetensors.index.json',
  'pytorch_model.bin',
  'pytorch_model.bin.index.json',
] as const;

/**
 * Opens the weights of a folder: the file of this name, or the first of those that Hugging Face's folders have. Throws
 * CheckpointError if there is none, or if a file is damaged.
 */
export async function openWeights(place: ModelFolder, file?: string): Promise<TensorSource> {
  const folder = sameVersions(place);
  const name = file ?? (await findName(folder));
  if (/\.safetensors(\.index\.json)?$/.test(name)) return safetensorsSource(folder, name);
  if (isIndexName(name)) return torchShards(folder, name);
  if (/\.(bin|pt|pth)$/.test(name)) return torchSource(folder, name);
  if (isGguf(name)) return ggufSource(folder, name);
  throw new CheckpointError(
    {
      asked: `to load the weights ${pathIn(folder, name)}`,
      found: 'an ending that no known format has',
      todo: 'Give a file that ends in .safetensors, .bin, .pt, .pth, .gguf or .index.json',
    },
    { name },
  );
}

/** Whether a file is one of llama.cpp, which also contains the config and the tokenizer. */
export function isGguf(file: string | undefined): boolean {
  return file?.endsWith('.gguf') === true;
}

/** Opens the files of PyTorch that an index lists. */
async function torchShards(folder: ModelFolder, name: string): Promise<TensorSource> {
  const path = pathIn(folder, name);
  const json = await folder.readText(name);
  if (json === undefined) throw missing(folder, [name]);
  const map = parseWeightMap(json, path);
  const files = [...new Set(Object.values(map))].toSorted();
  const sources: TensorSource[] = [];
  for (const file of files) sources.push(await torchSource(folder, file));
  const source = joinedSource(path, sources);
  const absent = Object.keys(map).find((tensor) => source.get(tensor) === undefined);
  if (absent === undefined) return source;
  throw new CheckpointError(
    {
      asked: `Loading tensors of ${path}`,
      found: `'${absent}' is in none of the files that the index lists`,
      todo: 'Load another copy of the files',
    },
    { path, name: absent },
  );
}

async function findName(folder: ModelFolder): Promise<string> {
  for (const name of names) {
    const found = await folder.open(name);
    if (found === undefined) continue;
    await found.close();
    return name;
  }
  throw missing(folder, names);
}

function missing({ place }: ModelFolder, files: readonly string[]): CheckpointError {
  return new CheckpointError(
    {
      asked: `to load the weights of ${place}`,
      found: `none of ${files.join(', ')} in it`,
      todo: 'Give the folder of a model, or name the file',
    },
    { place },
  );
}
