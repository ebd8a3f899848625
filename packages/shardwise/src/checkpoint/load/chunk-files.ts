import {
  CheckpointError,
  type Chunk,
  commonRuns,
  dtypes,
  type HostArray,
  hostArray,
  wholeChunk,
} from '@shardwise/core/extend';
import type { OpenFile, ReadableFiles } from '../places/checkpoint-files.ts';
import {
  CHECKSUM_BYTES,
  fileName,
  type StoredChunk,
  type SectionName,
  type StoredTensor,
} from '../format/index-file.ts';

/** The number of bytes of a tensor that `boxes` reads into memory at a time. */
const BLOCK_BYTES = 16 * CHECKSUM_BYTES;

/**
 * Reads tensors of a checkpoint, or chunks of them, from the files of the ranks that saved it. Every byte that it
 * returns has been verified. For that it may read up to two blocks of CHECKSUM_BYTES more than it needs of each stored
 * chunk.
 */
export class ChunkFiles implements AsyncDisposable {
  readonly #files: ReadableFiles;
  readonly #pathOf: (file: number) => string;
  readonly #open = new Map<number, OpenFile>();

  constructor(files: ReadableFiles, directory: string, section: SectionName, worldSize: number) {
    this.#files = files;
    this.#pathOf = (file) => files.join(directory, fileName(section, file, worldSize));
  }

  /** Reads a whole tensor. Throws CheckpointError. */
  async read(tensor: StoredTensor): Promise<HostArray> {
    const { dtype, shape } = tensor;
    const bytes = await this.readChunks(tensor, [wholeChunk(tensor.shape)]);
    return hostArray(dtype, shape, bytes);
  }

  /** Returns the elements of the chunks, one chunk after the other. Throws CheckpointError. */
  async readChunks(
    tensor: StoredTensor,
    chunks: readonly Chunk[],
  ): Promise<Uint8Array<ArrayBuffer>> {
    const elementBytes = dtypes[tensor.dtype].bytes;
    const elements = chunks.reduce((sum, { start, stop }) => sum + stop - start, 0);
    const bytes = new Uint8Array(elements * elementBytes);
    let offset = 0;
    for (const chunk of chunks) {
      await this.fill(tensor, chunk, bytes.subarray(offset));
      offset += (chunk.stop - chunk.start) * elementBytes;
    }
    return bytes;
  }

  /** Copies the elements of a chunk to the beginning of `target`. Throws CheckpointError. */
  async fill(
    { dtype, chunks }: StoredTensor,
    chunk: Chunk,
    target: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    for (const storedChunk of chunks) {
      await this.#copy(storedChunk, chunk, dtypes[dtype].bytes, target);
    }
  }

  /** Yields the bytes of a tensor in order, at most BLOCK_BYTES at a time. Throws CheckpointError. */
  async *boxes(tensor: StoredTensor): AsyncGenerator<Uint8Array> {
    const { box, stop: total } = wholeChunk(tensor.shape);
    const step = BLOCK_BYTES / dtypes[tensor.dtype].bytes;
    for (let start = 0; start < total; start += step) {
      const chunk = { box, start, stop: Math.min(total, start + step) };
      yield await this.readChunks(tensor, [chunk]);
    }
  }

  /**
   * Copies the elements that a stored chunk has of `chunk` to their places in `to`, which begins where `chunk` does.
   */
  async #copy(
    storedChunk: StoredChunk,
    chunk: Chunk,
    elementBytes: number,
    to: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    const pieceBytes = (storedChunk.stop - storedChunk.start) * elementBytes;
    // A block of which a run needs only a part is read to `aside`, because the next run may need another part of it.
    let aside = { first: 0, end: 0, bytes: new Uint8Array() };
    for (const run of commonRuns(storedChunk, chunk)) {
      let at = run.first * elementBytes;
      const end = at + run.count * elementBytes;
      const shift = run.second * elementBytes - at;
      while (at < end) {
        const first = Math.floor(at / CHECKSUM_BYTES) * CHECKSUM_BYTES;
        const whole = end === pieceBytes ? end : Math.floor(end / CHECKSUM_BYTES) * CHECKSUM_BYTES;
        if (at === first && at < whole) {
          await this.#readChecked(storedChunk, at, to.subarray(at + shift, whole + shift));
          at = whole;
          continue;
        }
        if (at < aside.first || at >= aside.end) {
          const bytes = new Uint8Array(Math.min(CHECKSUM_BYTES, pieceBytes - first));
          await this.#readChecked(storedChunk, first, bytes);
          aside = { first, end: first + bytes.byteLength, bytes };
        }
        const stop = Math.min(end, aside.end);
        to.set(aside.bytes.subarray(at - aside.first, stop - aside.first), at + shift);
        at = stop;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const file of this.#open.values()) await file.close();
    this.#open.clear();
  }

  /**
   * Fills `bytes` with those of a stored chunk from byte `first` on. Both ends must lie on the borders of checksums.
   */
  async #readChecked(
    storedChunk: StoredChunk,
    first: number,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    const path = this.#pathOf(storedChunk.file);
    await this.#readBytes(storedChunk.file, path, storedChunk.byteOffset + first, bytes);
    for (let at = 0; at < bytes.byteLength; at += CHECKSUM_BYTES) {
      const expected = storedChunk.checksums[(first + at) / CHECKSUM_BYTES];
      const found = this.#files.checksum(bytes.subarray(at, at + CHECKSUM_BYTES));
      if (found === expected) continue;
      const byteOffset = storedChunk.byteOffset + first + at;
      throw damaged(path, `expected CRC-32 ${expected} from byte ${byteOffset} on, found ${found}`);
    }
  }

  async #readBytes(
    file: number,
    path: string,
    byteOffset: number,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    const open = this.#open.get(file) ?? (await openFile(this.#files, path));
    this.#open.set(file, open);
    const { byteLength } = bytes;
    const filled = await open.read(bytes, byteOffset);
    if (filled < byteLength) {
      throw damaged(path, `expected ${byteLength} bytes at ${byteOffset}, found ${filled}`);
    }
  }
}

async function openFile(files: ReadableFiles, path: string): Promise<OpenFile> {
  try {
    return await files.open(path);
  } catch (cause) {
    throw damaged(path, 'it cannot be opened', cause);
  }
}

/** Makes the error for a file that is not as it was written. */
export function damaged(path: string, found: string, cause?: unknown): CheckpointError {
  return new CheckpointError(
    { asked: `Reading ${path}`, found, todo: 'Load an earlier checkpoint' },
    { path },
    cause === undefined ? {} : { cause },
  );
}
