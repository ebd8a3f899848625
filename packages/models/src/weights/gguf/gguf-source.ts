import {
  CheckpointError,
  type Chunk,
  commonRuns,
  fillFully,
  type ModelFolder,
  openFile,
  pathIn,
  type RandomAccessFile,
  readRuns,
  type TensorReader,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';
import { bytesOfBlocks, type QuantisedType } from './block-types.ts';
import { headCounts, isGemma } from './gguf-config.ts';
import { type GgufFile, type GgufTensor, readGguf } from './gguf-file.ts';
import { headsKind, modelName } from './gguf-names.ts';
import { ROPE_FACTORS } from './gguf-rope.ts';

/** A tensor of the file, and how its rows are ordered. */
interface Entry {
  readonly tensor: GgufTensor;
  /**
   * The number of rows of a head, if pairs of rotated channels lie side by side in it. In the model, all first channels
   * of pairs come before all second ones. 1 if the rows are in the model's order.
   */
  readonly headRows: number;
  /** What is added to its numbers of f32. Gemma's weights of norms are 1 less in the model than in the file. */
  readonly added: 0 | -1;
}

/** The most bytes that are decoded at a time. */
const BLOCK_BYTES = 4 * 1024 * 1024;

/** The tensors of a GGUF file under the names, and with the rows in the order, of Hugging Face. */
export interface GgufSource extends TensorSource {
  readonly file: GgufFile;
  /** How the file keeps a tensor. Null if its numbers are not in blocks, or if there is no such tensor. */
  blocksOf(name: string): QuantisedType | null;
  /**
   * The same tensors, but with those of these names as the bytes of their blocks: u8 [rows, bytes of a row]. `formats` has the
   * format in which each is asked for. Blocks of another one may have as many bytes, and do not fit.
   */
  withBytes(formats: ReadonlyMap<string, string>): TensorSource;
}

/**
 * Opens a GGUF file. Quantised tensors are decoded to f32 when they are read. Throws CheckpointError for a damaged file,
 * a type of quantisation that this library does not have, and a tensor that it does not know.
 */
export async function ggufSource(folder: ModelFolder, name: string): Promise<GgufSource> {
  const file = await readGguf(folder, name);
  const entries = entriesOf(file);
  return {
    ...sourceOf(folder, name, entries),
    file,
    blocksOf(tensor) {
      const type = entries.get(tensor)?.tensor.type;
      return type === undefined || type.decode === null ? null : type;
    },
    withBytes(formats) {
      const all = [...entries].map(([own, entry]): [string, Entry] => [
        own,
        formats.has(own) ? inBytes(entry) : entry,
      ]);
      return {
        ...sourceOf(folder, name, new Map(all)),
        whyNot(tensor) {
          const found = entries.get(tensor)?.tensor.type.name;
          const asked = formats.get(tensor);
          return asked === undefined || found === asked
            ? undefined
            : `blocks of ${found}, not ${asked}`;
        },
      };
    },
  };
}

function sourceOf(
  folder: ModelFolder,
  name: string,
  entries: ReadonlyMap<string, Entry>,
): TensorSource {
  return {
    place: pathIn(folder, name),
    names: [...entries.keys()],
    isVerifiedByReading: false,
    get(tensor) {
      const found = entries.get(tensor)?.tensor;
      return found && { name: tensor, dtype: found.type.dtype, shape: found.shape };
    },
    open: () => readerOf(folder, name, entries),
  };
}

/** A tensor of blocks as the bytes of its rows, each of which is whole blocks. */
function inBytes(entry: Entry): Entry {
  const { shape, type } = entry.tensor;
  const columns = shape.at(-1) ?? 1;
  const rowBytes = (columns / type.elements) * type.bytes;
  return {
    ...entry,
    tensor: { ...entry.tensor, shape: [...shape.slice(0, -1), rowBytes], type: bytesOfBlocks },
  };
}

function entriesOf(file: GgufFile): ReadonlyMap<string, Entry> {
  const heads = headCounts(file);
  const isLlama = file.metadata.get('general.architecture') === 'llama';
  const hasGemmaNorms = isGemma(file);
  const entries = new Map<string, Entry>();
  for (const [stored, tensor] of file.tensors) {
    // The config says what these are for.
    if (stored === ROPE_FACTORS) continue;
    const name = modelName(stored, hasGemmaNorms);
    if (name === undefined) throw unknownTensor(file.path, stored);
    const kind = isLlama ? headsKind(stored) : null;
    const [rows = 1] = tensor.shape;
    const headRows = kind === null ? 1 : rows / heads[kind];
    if (!Number.isInteger(headRows) || (headRows !== 1 && headRows % 2 !== 0)) {
      throw unknownTensor(file.path, `${stored} with ${rows} rows of ${kind} heads`);
    }
    const added = hasGemmaNorms && stored.endsWith('norm.weight') ? -1 : 0;
    if (added !== 0 && tensor.type.name !== 'F32') {
      throw unknownTensor(file.path, `${stored} of the type ${tensor.type.name}`);
    }
    entries.set(name, { tensor, headRows, added });
  }
  return entries;
}

function readerOf(
  folder: ModelFolder,
  name: string,
  entries: ReadonlyMap<string, Entry>,
): TensorReader {
  const path = pathIn(folder, name);
  let opened: RandomAccessFile | undefined;
  return {
    async fill(tensorName, chunk, target) {
      const entry = entries.get(tensorName);
      if (entry === undefined) throw new RangeError(`no tensor ${tensorName} in ${path}`);
      opened ??= await openFile(folder, name);
      const { tensor, headRows } = entry;
      const { type, byteOffset, shape } = tensor;
      if (headRows > 1) await fillHeads(opened, path, entry, chunk, target);
      else if (type.decode === null) {
        await readRuns(
          opened,
          { path, byteOffset, shape, elementBytes: type.bytes },
          chunk,
          target,
        );
      } else {
        const bytesOfElement = 4;
        for (const { first, second, count } of commonRuns(wholeChunk(shape), chunk)) {
          const to = target.subarray(second * bytesOfElement, (second + count) * bytesOfElement);
          await fillRange(opened, path, tensor, first, to);
        }
      }
      if (entry.added !== 0) addTo(target, entry.added);
    },
    async [Symbol.asyncDispose]() {
      await opened?.close();
    },
  };
}

/** Fills `target` with elements that are consecutive in the file, from element `first` on. */
async function fillRange(
  file: RandomAccessFile,
  path: string,
  { type, byteOffset }: GgufTensor,
  first: number,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  if (type.decode === null) {
    await fillFully(file, path, byteOffset + first * type.bytes, target);
    return;
  }
  const count = target.byteLength / 4;
  const step = Math.floor(BLOCK_BYTES / type.bytes) * type.elements;
  // Blocks are decoded whole, so the first and the last one may have elements that are not needed.
  const begin = Math.floor(first / type.elements) * type.elements;
  for (let at = begin; at < first + count; at += step) {
    const end = Math.min(at + step, Math.ceil((first + count) / type.elements) * type.elements);
    const blocks = new Uint8Array(((end - at) / type.elements) * type.bytes);
    await fillFully(file, path, byteOffset + (at / type.elements) * type.bytes, blocks);
    const values = new Float32Array(end - at);
    type.decode(blocks, values);
    const from = Math.max(first, at);
    const stop = Math.min(first + count, end);
    target.set(
      new Uint8Array(values.buffer, (from - at) * 4, (stop - from) * 4),
      (from - first) * 4,
    );
  }
}

/** Fills `target` with a chunk of queries or keys. A head is read whole, and its rows are put in the model's order. */
async function fillHeads(
  file: RandomAccessFile,
  path: string,
  { tensor, headRows }: Entry,
  chunk: Chunk,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const { shape, type } = tensor;
  const elementBytes = type.decode === null ? type.bytes : 4;
  const rowElements = shape.slice(1).reduce((product, size) => product * size, 1);
  const rowBytes = rowElements * elementBytes;
  const head = new Uint8Array(headRows * rowBytes);
  let current = -1;
  for (const { first, second, count } of commonRuns(wholeChunk(shape), chunk)) {
    // A run may go over several rows, and begin and end within one.
    for (let at = first; at < first + count;) {
      const row = Math.floor(at / rowElements);
      const stop = Math.min(first + count, (row + 1) * rowElements);
      const number = Math.floor(row / headRows);
      if (number !== current) {
        await fillRange(file, path, tensor, number * headRows * rowElements, head);
        current = number;
      }
      const from =
        storedRow(row % headRows, headRows) * rowBytes + (at % rowElements) * elementBytes;
      target.set(
        head.subarray(from, from + (stop - at) * elementBytes),
        (second + at - first) * elementBytes,
      );
      at = stop;
    }
  }
}

/** Adds a number to numbers of f32. */
function addTo(bytes: Uint8Array<ArrayBuffer>, added: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.byteLength; at += 4) {
    view.setFloat32(at, view.getFloat32(at, true) + added, true);
  }
}

/** The row of a head in the file that is this row in the model. */
function storedRow(row: number, headRows: number): number {
  const half = headRows / 2;
  return 2 * (row % half) + Math.floor(row / half);
}

function unknownTensor(path: string, tensor: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `Reading the tensors of ${path}`,
      found: `"${tensor}", which no class of this library has`,
      todo: 'Use the folder of Hugging Face',
    },
    { path, tensor },
  );
}
