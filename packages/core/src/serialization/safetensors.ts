import * as option from '../base/option-rules.ts';
import {
  type Check,
  checkValue,
  type Expected,
  limitedText,
  list,
  object,
  record,
  SavedDataError,
} from '../saved-data.ts';
import { dtypes, type DType, type Shape } from '../spec/dtype.ts';
import { CheckpointError, DTypeError } from '../spec/errors.ts';
import { hostArray, type HostArrays } from './host-array.ts';

/** One tensor of a file. Its bytes are counted from the start of the file. */
interface SafetensorsEntry {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly byteOffset: number;
  readonly byteLength: number;
}

export interface SafetensorsHeader {
  readonly entries: Readonly<Record<string, SafetensorsEntry>>;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The contents of a safetensors file. */
export interface SafetensorsContents {
  /** The bytes are views of the file. In files of other programs they may be unaligned. */
  readonly tensors: HostArrays;
  readonly metadata: Readonly<Record<string, string>>;
}

const LENGTH_BYTES = 8;
/** The limit of the header's length in the reference reader. */
const MAX_HEADER_BYTES = 100_000_000;
const METADATA_KEY = '__metadata__';
const READING = 'Reading a safetensors file';
const BROKEN = 'Load another copy of the file';

/**
 * The dtypes in the order in which the reference writer lays out data. Wide ones come first, so that all data is
 * aligned.
 */
const dtypeOfFileName: ReadonlyMap<string, DType> = new Map([
  ['I64', 'i64'],
  ['F64', 'f64'],
  ['F32', 'f32'],
  ['I32', 'i32'],
  ['BF16', 'bf16'],
  ['F16', 'f16'],
  ['U8', 'u8'],
  ['BOOL', 'bool'],
]);

const layout: ReadonlyMap<DType, { readonly fileName: string; readonly position: number }> =
  new Map(
    [...dtypeOfFileName].map(([fileName, dtype], position) => [dtype, { fileName, position }]),
  );

const checkMetadata = record(limitedText(MAX_HEADER_BYTES), MAX_HEADER_BYTES);

interface Entry {
  readonly dtype: string;
  readonly shape: Shape;
  readonly data_offsets: readonly number[];
}

const checkEntry: Check<Entry> = object<Entry>({
  dtype: limitedText(16),
  shape: list(option.count, 0, 64),
  data_offsets: list(option.count, 2, 2),
});

/** The place of one tensor's bytes, counted from the start of the file. */
interface SafetensorsPlace {
  readonly name: string;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * The header of a file that contains `tensors`, and the places of their bytes after it. They are sorted by dtype and
 * then by name, so that the file is byte for byte that of the reference writer. Throws CheckpointError for a name that
 * the format reserves, and DTypeError for a dtype that the format does not have.
 */
export function encodeSafetensorsHeader(
  tensors: Readonly<Record<string, { readonly dtype: DType; readonly shape: Shape }>>,
  metadata: Readonly<Record<string, string>> = {},
): { readonly header: Uint8Array<ArrayBuffer>; readonly places: readonly SafetensorsPlace[] } {
  const ordered = Object.entries(tensors)
    .map(([name, { dtype, shape }]) => ({ name, dtype, shape, ...layoutOf(dtype) }))
    .sort((a, b) => a.position - b.position || (a.name < b.name ? -1 : 1));
  const json: string[] = [];
  const add = (name: string, entry: object): void => {
    json.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`);
  };
  if (Object.keys(metadata).length > 0) add(METADATA_KEY, metadata);
  let end = 0;
  const relative = ordered.map(({ name, dtype, shape, fileName }) => {
    if (name === METADATA_KEY)
      throw unwritable(name, dtype, shape, 'the name is reserved by the format');
    const byteLength = byteLengthOf(dtype, shape);
    const begin = end;
    end += byteLength;
    add(name, { dtype: fileName, shape, data_offsets: [begin, end] });
    return { name, begin, byteLength };
  });
  const text = new TextEncoder().encode(`{${json.join(',')}}`);
  const padded = Math.ceil(text.byteLength / LENGTH_BYTES) * LENGTH_BYTES;
  const header = new Uint8Array(LENGTH_BYTES + padded).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true);
  header.set(text, LENGTH_BYTES);
  const places = relative.map(({ name, begin, byteLength }) => ({
    name,
    byteOffset: header.byteLength + begin,
    byteLength,
  }));
  return { header, places };
}

/** A whole safetensors file. Throws the errors of encodeSafetensorsHeader, and CheckpointError if bytes do not fit. */
export function encodeSafetensors(
  tensors: HostArrays,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  for (const [name, { dtype, shape, bytes }] of Object.entries(tensors)) {
    const expected = byteLengthOf(dtype, shape);
    if (bytes.byteLength === expected) continue;
    const found = `${bytes.byteLength} bytes where dtype and shape make ${expected}`;
    throw unwritable(name, dtype, shape, found);
  }
  const { header, places } = encodeSafetensorsHeader(tensors, metadata);
  const dataBytes = places.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const file = new Uint8Array(header.byteLength + dataBytes);
  file.set(header);
  for (const { name, byteOffset } of places) {
    file.set(tensors[name]?.bytes ?? new Uint8Array(), byteOffset);
  }
  return file;
}

/**
 * The number of bytes from the start of the file to the end of its header. `start` is at least the first 8 bytes of
 * the file. Throws CheckpointError if the file is too short, or if the header would be too long.
 */
export function safetensorsHeaderBytes(
  start: Uint8Array,
  fileBytes: number,
  asked: string = READING,
): number {
  if (start.byteLength < LENGTH_BYTES || fileBytes < LENGTH_BYTES) {
    throw broken(asked, 'the header length', LENGTH_BYTES, Math.min(start.byteLength, fileBytes));
  }
  const view = new DataView(start.buffer, start.byteOffset, LENGTH_BYTES);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    throw new CheckpointError(
      {
        asked,
        found: `it begins with ${beginning(start)}, and not with the length of a header (of at most ${MAX_HEADER_BYTES} bytes)`,
        todo: beginsAsZip(start)
          ? 'Files of torch.save (.pt, .pth, .bin) begin so: load them in Python, and write them with safetensors.torch.save_file'
          : 'Give a safetensors file',
      },
      { headerBytes: length, limitBytes: MAX_HEADER_BYTES },
    );
  }
  const end = LENGTH_BYTES + Number(length);
  if (fileBytes < end) throw broken(asked, 'the header', end, fileBytes);
  return end;
}

/**
 * Reads only the header. `start` contains at least the header (see safetensorsHeaderBytes). The entries lie one after
 * the other, without gaps, up to `fileBytes`. Throws CheckpointError for a broken or truncated file, and DTypeError for
 * a dtype that this package does not have.
 */
export function decodeSafetensorsHeader(
  start: Uint8Array,
  fileBytes: number,
  asked: string = READING,
): SafetensorsHeader {
  const dataStart = safetensorsHeaderBytes(start, fileBytes, asked);
  if (start.byteLength < dataStart) throw broken(asked, 'the header', dataStart, start.byteLength);
  const { [METADATA_KEY]: metadata, ...tensors } = parseHeader(
    start.subarray(LENGTH_BYTES, dataStart),
    asked,
  );
  const parsedMetadata = checked(checkMetadata, METADATA_KEY, metadata ?? {}, asked);

  const entries = Object.entries(tensors).map(([name, value]) => parseEntry(name, value, asked));
  entries.sort((a, b) => a.begin - b.begin || a.byteLength - b.byteLength);
  let end = 0;
  for (const { name, begin, byteLength } of entries) {
    if (begin !== end) {
      throw new CheckpointError(
        {
          asked,
          found: `tensor "${name}" starts at data byte ${begin}, the one before it ends at ${end}`,
          todo: BROKEN,
        },
        { name, expectedOffset: end, foundOffset: begin },
      );
    }
    end += byteLength;
  }
  if (fileBytes !== dataStart + end) throw broken(asked, 'all tensors', dataStart + end, fileBytes);
  return {
    entries: Object.fromEntries(
      entries.map(({ name, dtype, shape, begin, byteLength }) => [
        name,
        { dtype, shape, byteOffset: dataStart + begin, byteLength },
      ]),
    ),
    metadata: parsedMetadata,
  };
}

/**
 * Reads a whole file. `asked` is what errors say was asked, such as 'Loading weights.safetensors'. Throws the errors of
 * decodeSafetensorsHeader.
 */
export function decodeSafetensors(file: Uint8Array, asked?: string): SafetensorsContents {
  const { entries, metadata } = decodeSafetensorsHeader(file, file.byteLength, asked);
  const tensors = Object.fromEntries(
    Object.entries(entries).map(([name, { dtype, shape, byteOffset, byteLength }]) => [
      name,
      hostArray(dtype, shape, file.subarray(byteOffset, byteOffset + byteLength)),
    ]),
  );
  return { tensors, metadata };
}

/** The first bytes of a file, as text where they are text. */
function beginning(start: Uint8Array): string {
  const bytes = Array.from(start.subarray(0, LENGTH_BYTES));
  const isText = bytes.every((byte) => byte >= 0x20 && byte < 0x7f);
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, '0'));
  return isText ? JSON.stringify(String.fromCharCode(...bytes)) : `the bytes ${hex.join(' ')}`;
}

/** Whether a file begins as zip files do. */
function beginsAsZip([p, k]: Uint8Array): boolean {
  return p === 0x50 && k === 0x4b;
}

function unwritable(name: string, dtype: DType, shape: Shape, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `Writing tensor "${name}" (${dtype} [${shape.join(', ')}]) to a safetensors file`,
      found,
      todo: 'Give the tensor another name, or bytes that fit its shape',
    },
    { name, dtype, shape },
  );
}

function layoutOf(dtype: DType): { readonly fileName: string; readonly position: number } {
  const found = layout.get(dtype);
  if (found !== undefined) return found;
  throw new DTypeError(
    {
      asked: `Writing dtype ${dtype} to a safetensors file`,
      found: `the format's name for it is not known here`,
      todo: `Convert it to one of ${[...layout.keys()].join(', ')}`,
    },
    { dtype },
  );
}

function parseHeader(text: Uint8Array, asked: string): Record<string, unknown> {
  try {
    // The bytes are copied because the file may lie in shared memory, which the decoder refuses.
    const json = new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(text));
    // Every name is the name of a tensor, also `__proto__`.
    return record((value) => value, MAX_HEADER_BYTES)(JSON.parse(json), '');
  } catch (cause) {
    throw new CheckpointError(
      {
        asked,
        found: `its header of ${text.byteLength} bytes is no JSON object`,
        todo: 'Check that this is a safetensors file',
      },
      { headerBytes: text.byteLength },
      { cause },
    );
  }
}

function parseEntry(
  name: string,
  value: unknown,
  asked: string,
): { name: string; dtype: DType; shape: Shape; begin: number; byteLength: number } {
  const { dtype: fileName, shape, data_offsets: offsets } = checked(checkEntry, name, value, asked);
  const [begin = 0, end = 0] = offsets;
  const dtype = dtypeOfFileName.get(fileName);
  if (dtype === undefined) {
    throw new DTypeError(
      {
        asked,
        found: `tensor "${name}" has dtype ${fileName}`,
        todo: `Convert it to one of ${[...dtypeOfFileName.keys()].join(', ')}`,
      },
      { name, dtype: fileName },
    );
  }
  const expected = byteLengthOf(dtype, shape);
  const byteLength = end - begin;
  if (byteLength !== expected) {
    throw new CheckpointError(
      {
        asked,
        found: `tensor "${name}" has ${byteLength} bytes, ${fileName} [${shape.join(', ')}] takes ${expected}`,
        todo: BROKEN,
      },
      { name, expectedBytes: expected, foundBytes: byteLength },
    );
  }
  return { name, dtype, shape, begin, byteLength };
}

/** The bytes of a tensor. Infinity if the product of its dims overflows, which then equals no length in a file. */
function byteLengthOf(dtype: DType, shape: Shape): number {
  if (shape.includes(0)) return 0;
  const bytes = shape.reduce((product, size) => product * size, dtypes[dtype].bytes);
  return Number.isSafeInteger(bytes) ? bytes : Infinity;
}

function checked<T>(expected: Expected<T>, name: string, value: unknown, asked: string): T {
  try {
    return checkValue(expected, value, '');
  } catch (cause) {
    if (!(cause instanceof SavedDataError)) throw cause;
    const { path, message } = cause;
    throw new CheckpointError(
      {
        asked,
        found: `entry "${name}" is malformed (${path === '' ? '' : `${path}: `}${message})`,
        todo: BROKEN,
      },
      { name },
      { cause },
    );
  }
}

function broken(
  asked: string,
  part: string,
  expectedBytes: number,
  foundBytes: number,
): CheckpointError {
  return new CheckpointError(
    {
      asked,
      found: `expected ${expectedBytes} bytes for ${part}, found ${foundBytes}`,
      todo: BROKEN,
    },
    { expectedBytes, foundBytes },
  );
}
