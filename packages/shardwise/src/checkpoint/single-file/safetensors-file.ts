import { open } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import {
  CheckpointError,
  decodeSafetensors,
  dtypes,
  elementCount,
  encodeSafetensorsHeader,
  type FolderFile,
  type HostArray,
  hostArray,
  type HostArrays,
  isIndexName,
  safetensorsSource,
  wholeChunk,
} from '@shardwise/core/extend';
import { diskFolder, fileAt, isAddress, writableFolderAt } from '@shardwise/core/node';
import { diskFiles } from '../places/disk-files.ts';
import { replaceFile } from '../places/replace-file.ts';

export interface TensorFile {
  readonly tensors: HostArrays;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Node refuses to read 2 GiB or more in one call. */
const MAX_READ_BYTES = 2 ** 30;

/**
 * Writes one safetensors file, completely or not at all: that of a path, or of an address such as
 * `s3://bucket/weights.safetensors`. Throws CheckpointError, and ConfigError for an address that can only be read.
 */
export async function writeTensorFile(
  path: string,
  { tensors, metadata }: TensorFile,
): Promise<void> {
  const { header, places } = encodeSafetensorsHeader(tensors, metadata);
  const arrays = places.map(({ name }): HostArray | undefined => tensors[name]);
  const contents = [header, ...arrays.map((array) => array?.bytes ?? new Uint8Array())];
  if (!isAddress(path)) {
    return replaceFile(`Saving tensors to ${path}`, path, contents, diskFiles);
  }
  const { folder, name } = fileAt(path);
  return writableFolderAt('to save tensors', folder).write(name, contents);
}

/**
 * Reads one safetensors file, or all files of an index (`model.safetensors.index.json`), of a path or of an address.
 * Throws CheckpointError if a file is missing or damaged.
 */
export async function readTensorFile(path: string): Promise<TensorFile> {
  if (isAddress(path)) return readSource(fileAt(path));
  if (isIndexName(path)) {
    return readSource({ folder: diskFolder(dirname(path)), name: basename(path) });
  }
  return decodeSafetensors(await readWhole(path), askedOf(path));
}

async function readSource({ folder, name: file }: FolderFile): Promise<TensorFile> {
  const source = await safetensorsSource(folder, file);
  await using reader = source.open();
  const tensors: Record<string, HostArray> = {};
  for (const name of source.names) {
    const type = source.get(name);
    if (type === undefined) continue;
    const { dtype, shape } = type;
    const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
    const part = { layout: { dims: [], partial: [] } };
    await reader.fill(name, wholeChunk(shape), bytes, part);
    tensors[name] = hostArray(dtype, shape, bytes);
  }
  return { tensors, metadata: source.metadata };
}

async function readWhole(path: string): Promise<Uint8Array> {
  try {
    await using file = await open(path);
    const bytes = new Uint8Array((await file.stat()).size);
    let read = 0;
    while (read < bytes.byteLength) {
      const length = Math.min(MAX_READ_BYTES, bytes.byteLength - read);
      const { bytesRead } = await file.read(bytes, read, length, read);
      if (bytesRead === 0) throw new RangeError(`the file ends after ${read} bytes`);
      read += bytesRead;
    }
    return bytes;
  } catch (cause) {
    throw new CheckpointError(
      {
        asked: askedOf(path),
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Give the path of a safetensors file, as saveTensorFile() writes',
      },
      { path },
      { cause },
    );
  }
}

function askedOf(path: string): string {
  return `Loading tensors of ${path}`;
}
