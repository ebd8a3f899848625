import { mkdir, mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError } from '../spec/errors.ts';
import { fillFromFile } from './fill-from-file.ts';
import type { Page, PageStore } from './page.ts';

/** Pages in files. */
export interface FilePages extends PageStore, AsyncDisposable {
  /** The directory that contains only these pages. */
  readonly directory: string;
}

/**
 * Pages in files of a new directory below `directory`, one file for each page. Files are written and read as a
 * whole. Disposal removes them. Throws CheckpointError if a file cannot be written or read.
 */
export async function filePages(directory: string): Promise<FilePages> {
  await mkdir(directory, { recursive: true });
  const own = await mkdtemp(join(directory, 'pages-'));
  return {
    directory: own,
    write: async (name, bytes) => {
      const path = join(own, encodeURIComponent(name));
      const { byteLength } = bytes;
      await told(`to write ${byteLength} bytes to ${path}`, () => writeFile(path, bytes));
      return {
        byteLength,
        read: (target) => told(`to read ${byteLength} bytes of ${path}`, () => fill(target, path)),
      } satisfies Page;
    },
    [Symbol.asyncDispose]: () => rm(own, { recursive: true, force: true }),
  };
}

async function fill(target: Uint8Array, path: string): Promise<void> {
  await using file = await open(path);
  const filled = await fillFromFile(file, target, 0);
  if (filled < target.byteLength) throw new RangeError(`the file ends after ${filled} bytes`);
}

async function told<T>(asked: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    throw new CheckpointError(
      {
        asked,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Choose a directory with enough space, and leave its files alone while the model trains',
      },
      {},
      { cause },
    );
  }
}
