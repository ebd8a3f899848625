import {
  CheckpointError,
  type ModelFolder,
  openFile,
  pathIn,
  type RandomAccessFile,
  readBytes,
} from '@shardwise/core/extend';
import { type BlockType, blockTypeOf } from './block-types.ts';

/** A value of a file's metadata. */
export type GgufValue = number | bigint | boolean | string | readonly GgufValue[];

/** A tensor of a file. */
export interface GgufTensor {
  readonly name: string;
  /** Row by row, as everywhere in this library. The file has the dims in the other order. */
  readonly shape: readonly number[];
  readonly type: BlockType;
  /** Counted from the start of the file. */
  readonly byteOffset: number;
}

/** What a GGUF file says before its data. */
export interface GgufFile {
  readonly path: string;
  readonly metadata: ReadonlyMap<string, GgufValue>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

const MAGIC = 0x46554747;
const FIRST_BYTES = 2 ** 20;
/** The most bytes of metadata that are read. The largest vocabularies take some twenty megabytes. */
const MAX_HEADER_BYTES = 2 ** 28;
const MAX_DIMS = 4;
const MAX_NESTING = 4;
const MAX_ALIGNMENT = 2 ** 16;
const decoder = new TextDecoder();

/** The bytes end before the metadata do. */
class HeaderEnd extends Error {}

/**
 * Reads the metadata and the list of tensors of a GGUF file (versions 2 and 3). Throws CheckpointError for a damaged
 * file, and for a type of quantisation that this library does not have, which it names.
 */
export async function readGguf(folder: ModelFolder, name: string): Promise<GgufFile> {
  const path = pathIn(folder, name);
  const file = await openFile(folder, name);
  try {
    return await parse(file, path);
  } finally {
    await file.close();
  }
}

/** Reads more and more of the file, because only its contents say how long the metadata are. */
async function parse(file: RandomAccessFile, path: string): Promise<GgufFile> {
  for (let length = FIRST_BYTES; ; length *= 4) {
    const bytes = await readBytes(file, path, 0, Math.min(length, file.byteLength));
    try {
      return new HeaderReader(bytes, path, file.byteLength).read();
    } catch (error) {
      if (!(error instanceof HeaderEnd)) throw error;
      if (length < file.byteLength && length < MAX_HEADER_BYTES) continue;
      throw refusal(path, `metadata that go on beyond byte ${bytes.byteLength}`);
    }
  }
}

class HeaderReader {
  readonly #view: DataView<ArrayBuffer>;
  readonly #path: string;
  readonly #fileBytes: number;
  #at = 0;

  constructor(bytes: Uint8Array<ArrayBuffer>, path: string, fileBytes: number) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#path = path;
    this.#fileBytes = fileBytes;
  }

  read(): GgufFile {
    if (this.#uint32() !== MAGIC) throw refusal(this.#path, 'another beginning than "GGUF"');
    const version = this.#uint32();
    if (version !== 2 && version !== 3) throw refusal(this.#path, `version ${version}, not 2 or 3`);
    const tensorCount = this.#count();
    const entryCount = this.#count();
    const metadata = new Map<string, GgufValue>();
    for (let index = 0; index < entryCount; index++) {
      const key = this.#text();
      if (metadata.has(key)) throw refusal(this.#path, `two values of "${key}"`);
      metadata.set(key, this.#value(this.#uint32(), 0));
    }
    const infos = Array.from({ length: this.#fitting(tensorCount, 24) }, () => this.#tensor());
    return { path: this.#path, metadata, tensors: this.#placed(infos, metadata) };
  }

  /** A tensor, whose offset is counted from the start of the data. */
  #tensor(): GgufTensor {
    const name = this.#text();
    const dims = this.#uint32();
    if (dims > MAX_DIMS) throw refusal(this.#path, `tensor "${name}" of ${dims} dims`);
    const shape = Array.from({ length: dims }, () => this.#count()).toReversed();
    const type = blockTypeOf(this.#uint32(), name, this.#path);
    return { name, shape, type, byteOffset: this.#count() };
  }

  /** Checks that all tensors lie in the file, and counts their offsets from its start. */
  #placed(
    infos: readonly GgufTensor[],
    metadata: ReadonlyMap<string, GgufValue>,
  ): ReadonlyMap<string, GgufTensor> {
    const alignment = metadata.get('general.alignment') ?? 32;
    if (typeof alignment !== 'number' || !(alignment > 0 && alignment <= MAX_ALIGNMENT)) {
      throw refusal(this.#path, `the alignment ${String(alignment)}`);
    }
    const start = Math.ceil(this.#at / alignment) * alignment;
    const tensors = new Map<string, GgufTensor>();
    let end = 0;
    for (const tensor of infos.toSorted((a, b) => a.byteOffset - b.byteOffset)) {
      const { name, shape, type, byteOffset } = tensor;
      const elements = shape.reduce((product, size) => product * size, 1);
      const byteLength = (elements / type.elements) * type.bytes;
      if ((shape.at(-1) ?? 1) % type.elements !== 0) {
        throw refusal(
          this.#path,
          `tensor "${name}" with rows that are no whole blocks of ${type.name}`,
        );
      }
      if (byteOffset < end)
        throw refusal(this.#path, `tensor "${name}" overlaps the one before it`);
      end = byteOffset + byteLength;
      if (!(start + end <= this.#fileBytes)) {
        throw refusal(
          this.#path,
          `tensor "${name}" ends at byte ${start + end} of ${this.#fileBytes}`,
        );
      }
      if (tensors.has(name)) throw refusal(this.#path, `two tensors of the name "${name}"`);
      tensors.set(name, { ...tensor, byteOffset: start + byteOffset });
    }
    return tensors;
  }

  #value(type: number, depth: number): GgufValue {
    const view = this.#view;
    switch (type) {
      case 0:
        return view.getUint8(this.#take(1));
      case 1:
        return view.getInt8(this.#take(1));
      case 2:
        return view.getUint16(this.#take(2), true);
      case 3:
        return view.getInt16(this.#take(2), true);
      case 4:
        return this.#uint32();
      case 5:
        return view.getInt32(this.#take(4), true);
      case 6:
        return view.getFloat32(this.#take(4), true);
      case 7:
        return view.getUint8(this.#take(1)) !== 0;
      case 8:
        return this.#text();
      case 9:
        return this.#list(depth);
      case 10:
        return narrow(view.getBigUint64(this.#take(8), true));
      case 11:
        return narrow(view.getBigInt64(this.#take(8), true));
      case 12:
        return view.getFloat64(this.#take(8), true);
      default:
        throw refusal(this.#path, `metadata of type ${type} at byte ${this.#at}`);
    }
  }

  #list(depth: number): readonly GgufValue[] {
    if (depth >= MAX_NESTING) throw refusal(this.#path, `lists inside of lists, ${depth} deep`);
    const type = this.#uint32();
    const length = this.#fitting(this.#count(), 1);
    return Array.from({ length }, () => this.#value(type, depth + 1));
  }

  /** A number of items, each of which takes at least `leastBytes`. It is checked before memory is taken for them. */
  #fitting(count: number, leastBytes: number): number {
    if (this.#at + count * leastBytes > this.#fileBytes) {
      throw refusal(this.#path, `${count} items at byte ${this.#at} of ${this.#fileBytes}`);
    }
    if (this.#at + count * leastBytes > this.#view.byteLength) throw new HeaderEnd();
    return count;
  }

  #text(): string {
    const length = this.#fitting(this.#count(), 1);
    const at = this.#take(length);
    return decoder.decode(new Uint8Array(this.#view.buffer, this.#view.byteOffset + at, length));
  }

  /** A number of 64 bits that is a count or an offset. */
  #count(): number {
    const value = narrow(this.#view.getBigUint64(this.#take(8), true));
    if (typeof value === 'number') return value;
    throw refusal(this.#path, `the count ${value} at byte ${this.#at}`);
  }

  #uint32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  #take(byteLength: number): number {
    const at = this.#at;
    if (at + byteLength > this.#view.byteLength) throw new HeaderEnd();
    this.#at += byteLength;
    return at;
  }
}

function narrow(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function refusal(path: string, found: string): CheckpointError {
  return new CheckpointError(
    { asked: `Reading ${path}`, found, todo: 'Give another copy of a GGUF file' },
    { path },
  );
}
