import { readFile } from 'node:fs/promises';
import { DataError } from '@shardwise/core/extend';

/** More bytes than the file of any tokenizer has. It limits what is read of a file that may come from anywhere. */
const MAX_BYTES = 256 * 1024 * 1024;

/** What the JSON of a file says. Undefined if there is no such file. */
export async function jsonOf(path: string): Promise<unknown> {
  const text = await textOf(path);
  return text === undefined ? undefined : parseJson(text, path);
}

/** Throws DataError, with the path, for what is no JSON. */
export function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DataError(
      {
        asked: `to read ${path}`,
        found: `no JSON: ${cause instanceof Error ? cause.message : String(cause)}`,
        todo: 'Fetch the file again; it may have been cut off, or be a pointer of git-lfs',
      },
      { path },
      { cause },
    );
  }
}

/** The text of a file. Undefined if there is no such file. */
export async function textOf(path: string): Promise<string | undefined> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
  if (bytes.length <= MAX_BYTES) return new TextDecoder().decode(bytes);
  throw new DataError(
    {
      asked: `to read ${path}`,
      found: `${bytes.length} bytes`,
      todo: `Give a file of at most ${MAX_BYTES} bytes`,
    },
    { path, bytes: bytes.length },
  );
}
