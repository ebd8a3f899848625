import {
  checkIndex,
  checkOptions,
  DataError,
  type Dataset,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { ByteSource } from '../datasets/byte-source.ts';
import type { TokenSource } from '../datasets/token-dataset.ts';
import type { TokenRows } from '../collate/token-rows.ts';
import { fileBytes } from './file-bytes.ts';

/** Options of `openTokens`. */
export interface OpenTokensOptions {
  /** How a token is stored, in the order of little-endian machines. Default: u16, as nanoGPT writes it. */
  readonly dtype?: 'u16' | 'u32';
}

const tokenRules: OptionRules<OpenTokensOptions> = { dtype: option.oneOf('u16', 'u32') };

/**
 * The tokens of a file that has nothing but them, as nanoGPT's `train.bin`. Windows are read when they are needed. Node
 * only. Throws DataError for a file whose size is no whole number of tokens.
 */
export async function openTokens(
  path: string,
  options: OpenTokensOptions = {},
): Promise<TokenSource> {
  checkOptions('openTokens', options, tokenRules);
  const { dtype = 'u16' } = options;
  const width = dtype === 'u16' ? 2 : 4;
  const file = await fileBytes(path);
  if (file.size % width !== 0) {
    throw damaged(path, `${file.size} bytes, which are no whole number of ${dtype}`);
  }
  return {
    length: file.size / width,
    read: async (start, end) => toIds(await file.read(start * width, end * width), dtype, path),
  };
}

/** The codes of Megatron's dtypes that tokens are stored in. */
const DTYPES: Readonly<Record<number, 'u8' | 'i32' | 'u16'>> = { 1: 'u8', 4: 'i32', 8: 'u16' };
const WIDTHS = { u8: 1, u16: 2, u32: 4, i32: 4 } as const;
const MAGIC = 'MMIDIDX\0\0';
const HEADER_BYTES = 34;

/**
 * The documents of a data set that Megatron's `preprocess_data.py` has written: `PREFIX.idx` and `PREFIX.bin`. Documents
 * are read when they are needed. Pack them into rows with `packDocuments`, or read them with a data loader. Node only.
 * Throws DataError for files that do not fit together. Shape: -> inputIds [t].
 */
export async function openIndexedTokens(prefix: string): Promise<Dataset<TokenRows>> {
  const [path, index] = [`${prefix}.bin`, await fileBytes(`${prefix}.idx`)];
  const file = await fileBytes(path);
  if (index.size < HEADER_BYTES) throw damaged(index.name, `${index.size} bytes`);
  const header = await index.read(0, HEADER_BYTES);
  const view = new DataView(header.buffer);
  const magic = String.fromCharCode(...header.subarray(0, MAGIC.length));
  if (magic !== MAGIC || view.getBigUint64(9, true) !== 1n) {
    throw damaged(index.name, 'no index of version 1');
  }
  const dtype = DTYPES[view.getUint8(17)];
  if (dtype === undefined) throw damaged(index.name, `tokens of the dtype ${view.getUint8(17)}`);
  const [count, documents] = [18, 26].map((at) => Number(view.getBigUint64(at, true)));
  if (count === undefined || documents === undefined || !fits(index, count, documents)) {
    throw damaged(index.name, `${index.size} bytes for ${count} texts and ${documents} documents`);
  }
  const lengths = new Int32Array((await index.read(HEADER_BYTES, HEADER_BYTES + 4 * count)).buffer);
  const at = HEADER_BYTES + 4 * count;
  const pointers = new BigInt64Array((await index.read(at, at + 8 * count)).buffer);
  for (const [i, length] of lengths.entries()) {
    const start = Number(pointers[i]);
    if (length < 0 || start < 0 || start + length * WIDTHS[dtype] > file.size) {
      throw damaged(index.name, `text ${i} of ${length} tokens at byte ${start} of ${file.size}`);
    }
  }
  return {
    length: count,
    get: async (row) => {
      checkIndex(row, count);
      const start = Number(pointers[row]);
      const bytes = await file.read(start, start + (lengths[row] ?? 0) * WIDTHS[dtype]);
      return { inputIds: ndArray(toIds(bytes, dtype, path)) };
    },
  };
}

/** Whether an index has room for what it says: lengths, pointers, and where documents begin. */
function fits({ size }: ByteSource, texts: number, documents: number): boolean {
  return HEADER_BYTES + 12 * texts + 8 * documents === size;
}

function toIds(
  { buffer }: Uint8Array<ArrayBuffer>,
  dtype: keyof typeof WIDTHS,
  path: string,
): Int32Array<ArrayBuffer> {
  if (dtype === 'u16') return Int32Array.from(new Uint16Array(buffer));
  if (dtype === 'u8') return Int32Array.from(new Uint8Array(buffer));
  const ids = new Int32Array(buffer);
  if (ids.some((id) => id < 0)) throw damaged(path, 'a token that is negative, or 2^31 or more');
  return ids;
}

function damaged(path: string, found: string): DataError {
  return new DataError(
    {
      asked: `the tokens of ${path}`,
      found,
      todo: 'Give the file as it was written, with its dtype',
    },
    { path },
  );
}
