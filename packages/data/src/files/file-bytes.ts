import { open, stat } from 'node:fs/promises';
import { DataError } from '@shardwise/core/extend';
import type { ByteSource } from '../datasets/byte-source.ts';

/**
 * The bytes of a file. The file is opened for each read, so nothing has to be closed, and as many files as there are can be
 * in use. What was read lately is in the page cache of the system. Node only. Throws DataError if there is no such file.
 */
export async function fileBytes(path: string): Promise<ByteSource> {
  const { size } = await told(path, () => stat(path));
  return {
    name: path,
    size,
    read: async (start, end) => {
      const bytes = new Uint8Array(end - start);
      await using file = await told(path, () => open(path));
      let filled = 0;
      while (filled < bytes.length) {
        const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, start + filled);
        if (bytesRead === 0) throw cutOff(path, size, start + filled);
        filled += bytesRead;
      }
      return bytes;
    },
  };
}

async function told<T>(path: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    throw new DataError(
      {
        asked: `to read ${path}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Check the path, and the folder that it is relative to',
      },
      { path },
      { cause },
    );
  }
}

function cutOff(path: string, size: number, at: number): DataError {
  return new DataError(
    {
      asked: `to read ${path}, which had ${size} bytes when it was opened`,
      found: `its end at byte ${at}`,
      todo: 'Leave the file alone while it is in use',
    },
    { path, size, at },
  );
}
