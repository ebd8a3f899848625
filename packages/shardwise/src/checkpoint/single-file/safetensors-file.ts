import { open } from 'node:fs/promises';
import {
  CheckpointError,
  decodeSafetensors,
  encodeSafetensorsHeader,
  type HostArray,
  type HostArrays,
} from '@shardwise/core/extend';
import { diskFiles } from '../places/disk-files.ts';
import { replaceFile } from '../places/replace-file.ts';

export interface TensorFile {
  readonly tensors: HostArrays;
  readonly metadata: Readonly<Record<string, string>>;
}

/** Node refuses to read 2 GiB or more in one call. */
const MAX_READ_BYTES = 2 ** 30;

/** Writes one safetensors file, completely or not at all. Throws CheckpointError. */
export async function writeTensorFile(
  path: string,
  { tensors, metadata }: TensorFile,
): Promise<void> {
  const { header, places } = encodeSafetensorsHeader(tensors, metadata);
  const arrays = places.map(({ name }): HostArray | undefined => tensors[name]);
  const contents = [header, ...arrays.map((array) => array?.bytes ?? new Uint8Array())];
  await replaceFile(`Saving tensors to ${path}`, path, contents, diskFiles);
}

/** Reads one safetensors file. Throws CheckpointError if it is missing or damaged. */
export async function readTensorFile(path: string): Promise<TensorFile> {
  return decodeSafetensors(await readWhole(path), askedOf(path));
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
