import { CheckpointError } from '@shardwise/core/extend';
import type { ReadableFiles } from './checkpoint-files.ts';

/** Reads a text file. Returns undefined if there is none. Throws CheckpointError if it is longer than `limitBytes`. */
export async function readText(
  files: ReadableFiles,
  path: string,
  limitBytes: number = Infinity,
): Promise<string | undefined> {
  const found = await files.find(path);
  if (found === undefined || !found.isFile) return undefined;
  const { byteLength } = found;
  if (byteLength > limitBytes) {
    throw new CheckpointError(
      {
        asked: `Reading ${path}`,
        found: `it has ${byteLength} bytes, the limit is ${limitBytes}`,
        todo: 'Load another checkpoint',
      },
      { path, foundBytes: byteLength, limitBytes },
    );
  }
  const file = await files.open(path);
  try {
    const bytes = new Uint8Array(byteLength);
    return new TextDecoder().decode(bytes.subarray(0, await file.read(bytes, 0)));
  } finally {
    await file.close();
  }
}
