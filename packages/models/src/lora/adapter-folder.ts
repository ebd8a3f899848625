import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CheckpointError,
  currentSession,
  type ModelFolder,
  type Module,
  pathIn,
  type WritableFolder,
} from '@shardwise/core/extend';
import { isAddress, pretrainedFolderAt, writableFolderAt } from '@shardwise/core/node';
import { adapterFiles, type AdapterFiles, type AdapterFilesOptions } from './adapter-files.ts';

const CONFIG = 'adapter_config.json';
const TENSORS = 'adapter_model.safetensors';

/**
 * Reads the folder of an adapter of PEFT, for `loadAdapter`: a path, a URL of http or https, an address such as
 * `s3://bucket/adapters/1`, the name of a repository of the hub, or another folder. Throws CheckpointError for files that are missing, and for a config that is
 * no JSON.
 */
export async function readAdapter(place: string | ModelFolder): Promise<AdapterFiles> {
  const folder = typeof place === 'string' ? pretrainedFolderAt(place) : place;
  const [configPath, path] = [pathIn(folder, CONFIG), pathIn(folder, TENSORS)];
  const text = await told(configPath, () => folder.readText(CONFIG));
  const tensors = await told(path, () => readWhole(folder, TENSORS));
  if (text === undefined) throw unreadable(configPath, new Error('no such file'));
  if (tensors === undefined) throw unreadable(path, new Error('no such file'));
  try {
    return { config: JSON.parse(text), tensors };
  } catch (cause) {
    throw unreadable(configPath, cause);
  }
}

/**
 * Saves the adapter of a model in a folder, as PEFT reads it, under every strategy. The folder is a path, an address such
 * as `s3://bucket/adapters/1`, or another one to which files can be written. All ranks call it, and the first one writes;
 * when it returns, the files are there. Each file appears when it is complete, the config last. Throws the errors of
 * adapterFiles, and on the rank that writes those of Node and of the store.
 */
export async function saveAdapter(
  model: Module,
  place: string | WritableFolder,
  options: AdapterFilesOptions = {},
): Promise<void> {
  const write = writerAt(place);
  const { config, tensors } = await adapterFiles(model, options);
  const { mesh } = currentSession();
  const groups = mesh.axes.map(({ name }) => mesh.group(name)).filter(({ size }) => size > 1);
  if (groups.every(({ rank }) => rank === 0)) {
    await write(TENSORS, tensors);
    await write(CONFIG, new TextEncoder().encode(`${JSON.stringify(config, null, 2)}\n`));
  }
  for (const group of groups) await group.barrier();
}

/** Returns what writes a file to a place. Throws ConfigError for a place that can only be read. */
function writerAt(
  place: string | WritableFolder,
): (name: string, contents: Uint8Array) => Promise<void> {
  if (typeof place === 'string' && !isAddress(place)) {
    return async (name, contents) => {
      await mkdir(place, { recursive: true });
      const temporary = join(place, `${name}.${process.pid}.tmp`);
      await writeFile(temporary, contents);
      await rename(temporary, join(place, name));
    };
  }
  const folder = writableFolderAt('to save an adapter', place);
  return (name, contents) => folder.write(name, [contents]);
}

async function readWhole(
  folder: ModelFolder,
  name: string,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const file = await folder.open(name);
  if (file === undefined) return undefined;
  try {
    const bytes = new Uint8Array(file.byteLength);
    return bytes.subarray(0, await file.read(bytes, 0));
  } finally {
    await file.close();
  }
}

async function told<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function unreadable(path: string, cause: unknown): CheckpointError {
  return new CheckpointError(
    {
      asked: `to read ${path}`,
      found: cause instanceof Error ? cause.message : String(cause),
      todo: `Give a folder with ${CONFIG} and ${TENSORS}, as PEFT writes`,
    },
    { path },
    { cause },
  );
}
