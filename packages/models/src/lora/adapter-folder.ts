import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, currentSession, type Module } from '@shardwise/core/extend';
import { adapterFiles, type AdapterFiles, type AdapterFilesOptions } from './adapter-files.ts';

const CONFIG = 'adapter_config.json';
const TENSORS = 'adapter_model.safetensors';
/** A config is a page of text. */
const MAX_CONFIG_BYTES = 10_000_000;

/**
 * Reads the folder of an adapter of PEFT, for `loadAdapter`. Throws CheckpointError for files that are missing, and for a
 * config that is no JSON.
 */
export async function readAdapter(folder: string): Promise<AdapterFiles> {
  const path = join(folder, CONFIG);
  const text = await read(path, MAX_CONFIG_BYTES);
  const tensors = await read(join(folder, TENSORS), Number.MAX_SAFE_INTEGER);
  try {
    return { config: JSON.parse(new TextDecoder().decode(text)), tensors };
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

/**
 * Saves the adapter of a model in a folder, as PEFT reads it, under every strategy. All ranks call it, and the first one
 * writes; when it returns, the files are there. Each file appears when it is complete, the config last. Throws the errors
 * of adapterFiles, and on the rank that writes those of Node.
 */
export async function saveAdapter(
  model: Module,
  folder: string,
  options: AdapterFilesOptions = {},
): Promise<void> {
  const { config, tensors } = await adapterFiles(model, options);
  const { mesh } = currentSession();
  const groups = mesh.axes.map(({ name }) => mesh.group(name)).filter(({ size }) => size > 1);
  if (groups.every(({ rank }) => rank === 0)) {
    await mkdir(folder, { recursive: true });
    await replace(join(folder, TENSORS), tensors);
    await replace(join(folder, CONFIG), `${JSON.stringify(config, null, 2)}\n`);
  }
  for (const group of groups) await group.barrier();
}

async function replace(path: string, contents: Uint8Array | string): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  await writeFile(temporary, contents);
  await rename(temporary, path);
}

async function read(path: string, maxBytes: number): Promise<Uint8Array> {
  try {
    const { size } = await stat(path);
    if (size > maxBytes) throw new RangeError(`${size} bytes, and at most ${maxBytes} are read`);
    return await readFile(path);
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
