import { DataError, type ModelFolder, pathIn, type RandomAccessFile } from '@shardwise/core/extend';
import type { ByteSource } from './byte-source.ts';

/**
 * The bytes of a file of a folder: of the disk, of a web server, of a bucket, or of those that the visitor of a page has
 * picked. A file of the disk is opened for each read, so nothing has to be closed, and as many files as there are can be in
 * use. Throws DataError if there is no such file, or if it changes while it is in use.
 */
export async function folderBytes(folder: ModelFolder, name: string): Promise<ByteSource> {
  const path = pathIn(folder, name);
  const open = (): Promise<RandomAccessFile> =>
    told(path, async () => required(path, await folder.open(name)));
  const first = await open();
  const size = first.byteLength;
  // What lies on a server has a version, and nothing to close. Opening it again would be a request.
  const kept = first.version === undefined ? undefined : first;
  if (kept === undefined) await first.close();
  return {
    name: path,
    size,
    read: async (start, end) => {
      const bytes = new Uint8Array(Math.max(0, end - start));
      const file = kept ?? (await open());
      try {
        const filled = await told(path, () => file.read(bytes, start));
        if (filled < bytes.length) throw cutOff(path, size, start + filled);
        return bytes;
      } finally {
        if (kept === undefined) await file.close();
      }
    },
  };
}

function required(path: string, file: RandomAccessFile | undefined): RandomAccessFile {
  if (file !== undefined) return file;
  throw unreadable(path, 'no such file');
}

async function told<T>(path: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw unreadable(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function unreadable(path: string, found: string, cause?: unknown): DataError {
  return new DataError(
    {
      asked: `to read ${path}`,
      found,
      todo: 'Check the path or the URL, and the folder that a path is relative to',
    },
    { path },
    { cause },
  );
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
