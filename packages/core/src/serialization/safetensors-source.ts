import { dtypes, type DType, type Shape } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import {
  missingFile,
  type ModelFolder,
  openFile,
  pathIn,
  type RandomAccessFile,
  readBytes,
} from './model-folder.ts';
import { readRuns } from './read-runs.ts';
import {
  decodeSafetensorsHeader,
  type SafetensorsHeader,
  safetensorsHeaderBytes,
} from './safetensors.ts';
import { isIndexName, parseWeightMap } from './safetensors-index.ts';
import type { TensorReader, TensorSource } from './tensor-source.ts';

/** The number of bytes that are read to learn how long a header is. */
const START_BYTES = 8;

/** A tensor of a safetensors file, and the file. */
interface Entry {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  readonly file: string;
  readonly byteOffset: number;
}

/** The tensors of safetensors files. */
export interface SafetensorsSource extends TensorSource {
  /** The metadata of all files together. */
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * Opens a safetensors file of a folder, or an index (`model.safetensors.index.json`) with all its files. The headers
 * are read and checked, and the lengths of the files. Throws CheckpointError for a file that is missing, damaged or cut
 * off, and DTypeError for a dtype that this library does not have.
 */
export async function safetensorsSource(
  folder: ModelFolder,
  name: string,
): Promise<SafetensorsSource> {
  const { files, listed } = await filesOf(folder, name);
  const entries = new Map<string, Entry>();
  const metadata: Record<string, string> = {};
  for (const file of files) {
    const header = await readHeader(folder, file);
    Object.assign(metadata, header.metadata);
    for (const [tensor, entry] of Object.entries(header.entries)) {
      const other = entries.get(tensor);
      if (other !== undefined) {
        throw brokenIndex(folder, name, `both ${other.file} and ${file} have '${tensor}'`);
      }
      entries.set(tensor, { name: tensor, file, ...entry });
    }
  }
  for (const [tensor, file] of listed) {
    if (entries.get(tensor)?.file === file) continue;
    throw brokenIndex(folder, name, `'${tensor}' is not in ${file}, where the index says it is`);
  }
  const place = pathIn(folder, name);
  return {
    place,
    names: [...entries.keys()],
    metadata,
    isVerifiedByReading: false,
    get: (tensor) => entries.get(tensor),
    open: () => readerOf(folder, entries),
  };
}

function readerOf(folder: ModelFolder, entries: ReadonlyMap<string, Entry>): TensorReader {
  const open = new Map<string, RandomAccessFile>();
  return {
    async fill(name, chunk, target) {
      const entry = entries.get(name);
      if (entry === undefined) throw new RangeError(`no tensor ${name} in ${folder.place}`);
      const { file, byteOffset, shape, dtype } = entry;
      const opened = open.get(file) ?? (await openFile(folder, file));
      open.set(file, opened);
      const elementBytes = dtypes[dtype].bytes;
      const stored = { path: pathIn(folder, file), byteOffset, shape, elementBytes };
      await readRuns(opened, stored, chunk, target);
    },
    async [Symbol.asyncDispose]() {
      for (const file of open.values()) await file.close();
      open.clear();
    },
  };
}

/** The files to read, and the file of each tensor if there is an index. */
async function filesOf(
  folder: ModelFolder,
  name: string,
): Promise<{
  readonly files: readonly string[];
  readonly listed: readonly (readonly [tensor: string, file: string])[];
}> {
  if (!isIndexName(name)) return { files: [name], listed: [] };
  const path = pathIn(folder, name);
  const json = await folder.readText(name);
  if (json === undefined) throw missingFile(path);
  const listed = Object.entries(parseWeightMap(json, path));
  return { files: [...new Set(listed.map(([, file]) => file))].toSorted(), listed };
}

async function readHeader(folder: ModelFolder, name: string): Promise<SafetensorsHeader> {
  const path = pathIn(folder, name);
  const asked = `Loading tensors of ${path}`;
  const file = await openFile(folder, name);
  try {
    const { byteLength } = file;
    const start = await readBytes(file, path, 0, Math.min(START_BYTES, byteLength));
    const headerBytes = safetensorsHeaderBytes(start, byteLength, asked);
    const header = await readBytes(file, path, 0, headerBytes);
    return decodeSafetensorsHeader(header, byteLength, asked);
  } finally {
    await file.close();
  }
}

function brokenIndex(folder: ModelFolder, name: string, found: string): CheckpointError {
  const path = pathIn(folder, name);
  return new CheckpointError(
    { asked: `Loading tensors of ${path}`, found, todo: 'Load another copy of the files' },
    { path },
  );
}
