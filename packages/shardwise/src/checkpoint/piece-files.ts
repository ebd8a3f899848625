import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { CheckpointError, dtypes, type HostArray } from '@shardwise/core';
import {
  CHECKSUM_BYTES,
  fileName,
  type Piece,
  type SectionName,
  type StoredTensor,
} from './state-file.ts';

/** What is in memory of a tensor that is read in blocks. */
const BLOCK_BYTES = 16 * CHECKSUM_BYTES;

/**
 * Reads tensors of a checkpoint, or ranges of them, from the files of the ranks that saved it.
 * Every byte that it gives has been checked; it reads up to two checksums' lengths more.
 */
export class PieceFiles implements AsyncDisposable {
  readonly #pathOf: (file: number) => string;
  readonly #handles = new Map<number, FileHandle>();

  constructor(directory: string, section: SectionName, worldSize: number) {
    this.#pathOf = (file) => join(directory, fileName(section, file, worldSize));
  }

  /** Shape: -> that of the whole tensor. Throws CheckpointError. */
  async read(tensor: StoredTensor): Promise<HostArray> {
    const { dtype, shape, pieces } = tensor;
    const bytes = await this.readRange(tensor, 0, pieces.at(-1)?.stop ?? 0);
    return { dtype, shape, bytes };
  }

  /** The bytes of elements `start` to `stop`. Throws CheckpointError. */
  async readRange(
    tensor: StoredTensor,
    start: number,
    stop: number,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array((stop - start) * dtypes[tensor.dtype].bytes);
    let offset = 0;
    for await (const block of this.blocks(tensor, start, stop)) {
      bytes.set(block, offset);
      offset += block.byteLength;
    }
    return bytes;
  }

  /** The same, one block after the other. Throws CheckpointError. */
  async *blocks(
    { dtype, pieces }: StoredTensor,
    start: number,
    stop: number,
  ): AsyncGenerator<Uint8Array> {
    const elementBytes = dtypes[dtype].bytes;
    for (const piece of pieces) {
      const first = (Math.max(start, piece.start) - piece.start) * elementBytes;
      const end = (Math.min(stop, piece.stop) - piece.start) * elementBytes;
      const pieceBytes = (piece.stop - piece.start) * elementBytes;
      if (first >= end) continue;
      const firstBlock = Math.floor(first / CHECKSUM_BYTES) * CHECKSUM_BYTES;
      for (let at = firstBlock; at < end; at += BLOCK_BYTES) {
        const until = Math.min(
          at + BLOCK_BYTES,
          pieceBytes,
          Math.ceil(end / CHECKSUM_BYTES) * CHECKSUM_BYTES,
        );
        const block = await this.#readChecked(piece, at, until);
        yield block.subarray(Math.max(0, first - at), Math.min(until, end) - at);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const handle of this.#handles.values()) await handle.close();
    this.#handles.clear();
  }

  /** Bytes `first` to `end` of a piece, where checksums begin and end. */
  async #readChecked(piece: Piece, first: number, end: number): Promise<Uint8Array> {
    const path = this.#pathOf(piece.file);
    const bytes = await this.#readBytes(piece.file, path, piece.byteOffset + first, end - first);
    for (let at = 0; at < bytes.byteLength; at += CHECKSUM_BYTES) {
      const expected = piece.checksums[(first + at) / CHECKSUM_BYTES];
      const found = crc32(bytes.subarray(at, at + CHECKSUM_BYTES));
      if (found === expected) continue;
      const byteOffset = piece.byteOffset + first + at;
      throw damaged(path, `expected CRC-32 ${expected} from byte ${byteOffset} on, found ${found}`);
    }
    return bytes;
  }

  async #readBytes(
    file: number,
    path: string,
    byteOffset: number,
    byteLength: number,
  ): Promise<Uint8Array> {
    const handle = this.#handles.get(file) ?? (await openFile(path));
    this.#handles.set(file, handle);
    const bytes = new Uint8Array(byteLength);
    let done = 0;
    while (done < byteLength) {
      const { bytesRead } = await handle.read(bytes, done, byteLength - done, byteOffset + done);
      if (bytesRead === 0) {
        throw damaged(path, `expected ${byteLength} bytes at ${byteOffset}, found ${done}`);
      }
      done += bytesRead;
    }
    return bytes;
  }
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (cause) {
    throw damaged(path, 'it cannot be opened', cause);
  }
}

/** The error for a file that is not as it was written. */
export function damaged(path: string, found: string, cause?: unknown): CheckpointError {
  return new CheckpointError(
    { asked: `Reading ${path}`, found, todo: 'Load an earlier checkpoint' },
    { path },
    cause === undefined ? {} : { cause },
  );
}
