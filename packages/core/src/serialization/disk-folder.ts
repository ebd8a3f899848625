import { readSync } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fillFromFile } from '../paging/fill-from-file.ts';
import { CheckpointError } from '../spec/errors.ts';
import { MAX_TEXT_BYTES, type ModelFolder } from './model-folder.ts';

/** Below so many bytes, handing a read to another thread takes longer than the read. */
const SMALL_READ_BYTES = 65_536;

/** A folder of the disk with the files of a model. */
export function diskFolder(path: string): ModelFolder {
  return {
    place: path,

    async readText(name) {
      const file = join(path, name);
      const found = await stat(file).catch(absent);
      if (found === undefined) return undefined;
      if (found.size <= MAX_TEXT_BYTES) return readFile(file, 'utf8');
      throw new CheckpointError(
        {
          asked: `Reading ${file} as text`,
          found: `${found.size} bytes`,
          todo: `Give a file of at most ${MAX_TEXT_BYTES} bytes`,
        },
        { path: file, byteLength: found.size },
      );
    },

    async open(name) {
      const handle = await open(join(path, name), 'r').catch(absent);
      if (handle === undefined) return undefined;
      const { size } = await handle.stat();
      return {
        byteLength: size,
        // The disk is read by pages, so that leaving out less costs no time.
        gapBytes: 0,
        read: async (target, byteOffset) =>
          target.byteLength <= SMALL_READ_BYTES
            ? readSync(handle.fd, target, 0, target.byteLength, byteOffset)
            : fillFromFile(handle, target, byteOffset),
        close: () => handle.close(),
      };
    },
  };
}

/** Undefined for a file that is not there. Other errors are thrown. */
function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
  throw error;
}
