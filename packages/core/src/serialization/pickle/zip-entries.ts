import { CheckpointError } from '../../spec/errors.ts';
import { type RandomAccessFile, readBytes } from '../model-folder.ts';

/** A file in an archive, which is stored as it is. */
export interface ZipEntry {
  readonly byteOffset: number;
  readonly byteLength: number;
}

const END_BYTES = 22;
const LOCATOR_BYTES = 20;
const END_64_BYTES = 56;
const ENTRY_BYTES = 46;
const LOCAL_BYTES = 30;
const MAX_COMMENT_BYTES = 65_535;
/** The most bytes of a directory that are read. A model has some thousand files of a hundred bytes each. */
const MAX_DIRECTORY_BYTES = 2 ** 28;
const UINT_32_MAX = 0xffffffff;
const decoder = new TextDecoder();

/** Whether a file begins as an archive does. */
export function isZip(start: Uint8Array): boolean {
  return start[0] === 0x50 && start[1] === 0x4b && start[2] === 3 && start[3] === 4;
}

/**
 * Reads the directory of a zip archive, also of a large one (zip64). Throws CheckpointError for a damaged archive, and
 * for compressed files, which PyTorch does not write: they could expand without limit.
 */
export async function readZipEntries(
  file: RandomAccessFile,
  path: string,
): Promise<ReadonlyMap<string, ZipEntry>> {
  const refuse = (found: string): CheckpointError =>
    new CheckpointError(
      { asked: `Reading the archive ${path}`, found, todo: 'Load another copy of the file' },
      { path },
    );
  const { offset, byteLength } = await findDirectory(file, path, refuse);
  if (byteLength > MAX_DIRECTORY_BYTES) throw refuse(`a directory of ${byteLength} bytes`);
  const directory = viewOf(await readBytes(file, path, offset, byteLength));
  const entries = new Map<string, ZipEntry>();
  let at = 0;
  while (at + ENTRY_BYTES <= byteLength) {
    if (directory.getUint32(at, true) !== 0x02014b50) throw refuse('a broken directory');
    const nameBytes = directory.getUint16(at + 28, true);
    const extraBytes = directory.getUint16(at + 30, true);
    const commentBytes = directory.getUint16(at + 32, true);
    const next = at + ENTRY_BYTES + nameBytes + extraBytes + commentBytes;
    if (next > byteLength) throw refuse('a broken directory');
    const name = textOf(directory, at + ENTRY_BYTES, nameBytes);
    if (directory.getUint16(at + 10, true) !== 0) throw refuse(`the compressed file "${name}"`);
    if ((directory.getUint16(at + 8, true) & 1) !== 0) throw refuse(`the encrypted file "${name}"`);
    if (entries.has(name)) throw refuse(`two files of the name "${name}"`);
    const extra = { at: at + ENTRY_BYTES + nameBytes, byteLength: extraBytes };
    const [size, compressed, local] = wideNumbers(directory, extra, [
      directory.getUint32(at + 24, true),
      directory.getUint32(at + 20, true),
      directory.getUint32(at + 42, true),
    ]);
    if (size === undefined || local === undefined || size !== compressed)
      throw refuse('a broken directory');
    entries.set(name, {
      byteOffset: await contentsOffset(file, path, local, refuse),
      byteLength: size,
    });
    at = next;
  }
  for (const [name, entry] of entries) {
    if (entry.byteOffset + entry.byteLength > file.byteLength)
      throw refuse(`the file "${name}" is cut off`);
  }
  return entries;
}

type Refuse = (found: string) => CheckpointError;

/** Where the directory lies, from the record at the end of the archive. */
async function findDirectory(
  file: RandomAccessFile,
  path: string,
  refuse: Refuse,
): Promise<{ readonly offset: number; readonly byteLength: number }> {
  const tailBytes = Math.min(file.byteLength, END_BYTES + MAX_COMMENT_BYTES + LOCATOR_BYTES);
  const tailOffset = file.byteLength - tailBytes;
  const tail = viewOf(await readBytes(file, path, tailOffset, tailBytes));
  let at = tailBytes - END_BYTES;
  while (at >= 0 && tail.getUint32(at, true) !== 0x06054b50) at--;
  if (at < 0) throw refuse('no directory at its end, so that it is cut off');
  const narrow = {
    offset: tail.getUint32(at + 16, true),
    byteLength: tail.getUint32(at + 12, true),
  };
  const locator = at - LOCATOR_BYTES;
  if (locator < 0 || tail.getUint32(locator, true) !== 0x07064b50) return narrow;
  const recordOffset = wide(tail, locator + 8);
  if (recordOffset === undefined) throw refuse('a broken directory');
  const record = viewOf(await readBytes(file, path, recordOffset, END_64_BYTES));
  const [byteLength, offset] = [wide(record, 40), wide(record, 48)];
  if (
    record.getUint32(0, true) !== 0x06064b50 ||
    byteLength === undefined ||
    offset === undefined
  ) {
    throw refuse('a broken directory');
  }
  return { offset, byteLength };
}

/** Where the contents of a file begin, which its own header says. */
async function contentsOffset(
  file: RandomAccessFile,
  path: string,
  local: number,
  refuse: Refuse,
): Promise<number> {
  const header = viewOf(await readBytes(file, path, local, LOCAL_BYTES));
  if (header.getUint32(0, true) !== 0x04034b50) throw refuse('a file without a header');
  return local + LOCAL_BYTES + header.getUint16(26, true) + header.getUint16(28, true);
}

/** Replaces the numbers of 32 bits that are too small by those of 64 bits in the extra field of zip64. */
function wideNumbers(
  view: DataView,
  extra: { readonly at: number; readonly byteLength: number },
  numbers: readonly number[],
): readonly (number | undefined)[] {
  if (!numbers.includes(UINT_32_MAX)) return numbers;
  const end = extra.at + extra.byteLength;
  let { at } = extra;
  while (at + 4 <= end && view.getUint16(at, true) !== 1) at += 4 + view.getUint16(at + 2, true);
  at += 4;
  return numbers.map((number) => {
    if (number !== UINT_32_MAX) return number;
    const value = at + 8 <= end ? wide(view, at) : undefined;
    at += 8;
    return value;
  });
}

/** A number of 64 bits. Undefined if it is beyond the exact ones. */
function wide(view: DataView, at: number): number | undefined {
  const value = Number(view.getBigUint64(at, true));
  return Number.isSafeInteger(value) ? value : undefined;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function textOf(view: DataView, at: number, byteLength: number): string {
  return decoder.decode(new Uint8Array(view.buffer, view.byteOffset + at, byteLength));
}
