import { mkdir, open, rename, rm } from 'node:fs/promises';

/** What writing a checkpoint asks of a disk; each call is durable when its promise settles. */
export interface DurableFiles {
  makeDirectory(path: string): Promise<void>;
  /** `chunks` are written one after the other. */
  writeFile(path: string, chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<void>;
  /** Atomic; the target may be a file that exists. */
  rename(from: string, to: string): Promise<void>;
  removeDirectory(path: string): Promise<void>;
  /** Makes the entries of a directory durable. */
  syncDirectory(path: string): Promise<void>;
}

/** Node refuses calls of 2 GiB and more. */
const MAX_WRITE_BYTES = 2 ** 30;

export const durableFiles: DurableFiles = {
  async makeDirectory(path) {
    await mkdir(path, { recursive: true });
  },

  async writeFile(path, chunks) {
    await using file = await open(path, 'w');
    for await (const chunk of chunks) {
      let written = 0;
      while (written < chunk.byteLength) {
        const length = Math.min(chunk.byteLength - written, MAX_WRITE_BYTES);
        written += (await file.write(chunk, written, length)).bytesWritten;
      }
    }
    await file.sync();
  },

  rename,

  async removeDirectory(path) {
    await rm(path, { recursive: true, force: true });
  },

  async syncDirectory(path) {
    // Windows does not open directories, and needs no such call.
    if (process.platform === 'win32') return;
    await using directory = await open(path, 'r');
    await directory.sync();
  },
};
