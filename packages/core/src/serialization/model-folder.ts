import { CheckpointError } from '../spec/errors.ts';

/** A file of which any bytes can be read. */
export interface RandomAccessFile {
  readonly byteLength: number;
  /** Bytes between two stretches that are cheaper to read along than to leave out by a second read. */
  readonly gapBytes: number;
  /** What changes when the content does. Undefined where nothing says so, as on a disk. */
  readonly version?: string;
  /** Fills `target` from `byteOffset` on. Returns the number of bytes read, which is lower if the file ends earlier. */
  read(target: Uint8Array<ArrayBuffer>, byteOffset: number): Promise<number>;
  close(): Promise<void>;
}

/**
 * A place with files, such as those of a model or of a data set: a folder of the disk, of a web server or of a bucket, or
 * files that the visitor of a page has picked. Names are paths in the folder, with `/` between their parts.
 */
export interface ModelFolder {
  /** What errors call the place, such as the path of the folder. */
  readonly place: string;
  /** Returns the text of a small file, or undefined if there is no file of this name. */
  readText(name: string): Promise<string | undefined>;
  /** Opens a file. Returns undefined if there is no file of this name. */
  open(name: string): Promise<RandomAccessFile | undefined>;
  /** Says which version of the whole folder is read, such as a commit. Absent where only files have versions. */
  version?(): Promise<string>;
  /** Lists all files whose names begin with `prefix`. Absent where no list can be had, as of a web server. */
  list?(prefix: string): Promise<readonly FolderEntry[]>;
}

/** A folder, and the name of a file of it. */
export interface FolderFile {
  readonly folder: ModelFolder;
  readonly name: string;
}

/** A file of a folder, as it is listed. */
export interface FolderEntry {
  readonly name: string;
  readonly byteLength: number;
  /** When it was written, in milliseconds since the epoch. */
  readonly modifiedMs: number;
}

/** A folder to which files can be written. Readers see a file when it is complete, and the old one until then. */
export interface WritableFolder extends ModelFolder {
  list(prefix: string): Promise<readonly FolderEntry[]>;
  /** Writes `chunks` one after the other to a file, which may replace another one. */
  write(name: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void>;
  /** Writes a small file unless there is one of this name. Returns whether it is there now with these contents. */
  writeNew(name: string, contents: Uint8Array<ArrayBuffer>): Promise<boolean>;
  /** Removes files, one after the other. Names of no file are passed over. */
  remove(names: readonly string[]): Promise<void>;
}

/** Whether files can be written to a folder. */
export function isWritableFolder(value: unknown): value is WritableFolder {
  const names = ['readText', 'open', 'list', 'write', 'writeNew', 'remove'];
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

/** The most bytes of a file that `readText` reads. Files of tokenizers have some ten megabytes. */
export const MAX_TEXT_BYTES: number = 2 ** 28;

/** The path of a file of a folder, for errors. */
export function pathIn({ place }: ModelFolder, name: string): string {
  return place === '' ? name : `${place}/${name}`;
}

/** Opens a file with tensors. Throws CheckpointError if there is none. */
export async function openFile(folder: ModelFolder, name: string): Promise<RandomAccessFile> {
  const file = await folder.open(name);
  if (file === undefined) throw missingFile(pathIn(folder, name));
  return file;
}

/** The error for a file that is not there. */
export function missingFile(path: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `Loading tensors of ${path}`,
      found: 'no such file',
      todo: 'Give a file of tensors, or an index (model.safetensors.index.json) with all its files beside it',
    },
    { path },
  );
}

/** Returns exactly these bytes of a file. Throws CheckpointError if the file ends earlier. */
export async function readBytes(
  file: RandomAccessFile,
  path: string,
  byteOffset: number,
  byteLength: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (byteOffset + byteLength > file.byteLength) {
    throw tooShort(path, byteOffset, byteLength, file.byteLength - byteOffset);
  }
  const bytes = new Uint8Array(byteLength);
  await fillFully(file, path, byteOffset, bytes);
  return bytes;
}

/** Fills `target` with the bytes of a file. Throws CheckpointError if the file ends earlier. */
export async function fillFully(
  file: RandomAccessFile,
  path: string,
  byteOffset: number,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const filled = await file.read(target, byteOffset);
  if (filled < target.byteLength) throw tooShort(path, byteOffset, target.byteLength, filled);
}

function tooShort(
  path: string,
  byteOffset: number,
  expected: number,
  found: number,
): CheckpointError {
  return new CheckpointError(
    {
      asked: `Reading ${path}`,
      found: `expected ${expected} bytes at ${byteOffset}, found ${Math.max(0, found)}`,
      todo: 'Load another copy of the file',
    },
    { path, byteOffset, expectedBytes: expected, foundBytes: found },
  );
}
