import { glob, readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DataError } from '../spec/errors.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Options of `readTextFiles`. */
export interface ReadTextFilesOptions {
  /** The folder that globs are relative to. Default: the process's working folder. */
  readonly cwd?: string;
  /** The most bytes to read. More bytes are an error. Default: 1 GiB. */
  readonly maxBytes?: number;
}

const readRules: OptionRules<ReadTextFilesOptions> = {
  cwd: option.nonEmptyText,
  maxBytes: option.count,
};

/**
 * The bytes of all files that match, one after the other, in the order of their paths by UTF-16 unit, which is
 * the same on every machine. A file that matches twice is read once. Node only. Throws DataError if a glob
 * matches no file, or if the files exceed `maxBytes`.
 */
export async function readTextFiles(
  globs: string | readonly string[],
  options: ReadTextFilesOptions = {},
): Promise<Uint8Array> {
  checkOptions('readTextFiles', options, readRules);
  const { cwd = process.cwd(), maxBytes = 2 ** 30 } = options;
  const sizes = new Map<string, number>();
  for (const pattern of typeof globs === 'string' ? [globs] : globs) {
    for (const [path, bytes] of await matches(pattern, cwd)) sizes.set(path, bytes);
  }
  const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  if (total > maxBytes) throw tooLarge(sizes.size, total, maxBytes);

  const chunks: Uint8Array[] = [];
  let length = 0;
  for (const path of [...sizes.keys()].sort()) {
    const chunk = await readFile(path);
    chunks.push(chunk);
    length += chunk.length;
    // A file can have grown since it was measured.
    if (length > maxBytes) throw tooLarge(sizes.size, length, maxBytes);
  }
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

/** The files that match, with their sizes in bytes. */
async function matches(pattern: string, cwd: string): Promise<Map<string, number>> {
  const files = new Map<string, number>();
  for await (const match of glob(pattern, { cwd })) {
    const path = resolve(cwd, match);
    const found = await stat(path);
    if (found.isFile()) files.set(path, found.size);
  }
  if (files.size > 0) return files;
  throw new DataError(
    {
      asked: `text files matching '${pattern}'`,
      found: `no file under ${cwd}`,
      todo: 'Correct the glob, or start from the folder it is relative to (option cwd)',
    },
    { glob: pattern, cwd },
  );
}

function tooLarge(files: number, bytes: number, maxBytes: number): DataError {
  return new DataError(
    {
      asked: `to read ${files} text files of ${bytes} bytes`,
      found: `a limit of ${maxBytes} bytes`,
      todo: 'Narrow the globs, or raise maxBytes',
    },
    { files, bytes, maxBytes },
  );
}
