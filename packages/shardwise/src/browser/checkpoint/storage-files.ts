import { CheckpointError } from '@shardwise/core/extend';
import type { CheckpointFiles, FoundEntry } from '../../checkpoint/places/checkpoint-files.ts';
import { blobFile } from './blob-file.ts';
import { crc32 } from './crc32.ts';
import { joinPath, splitPath } from './page-path.ts';

/**
 * Methods that TypeScript's types for pages leave out. Only workers have the first one, and only files of this storage
 * have the second one.
 */
interface StoredFileHandle extends FileSystemFileHandle {
  createSyncAccessHandle(): Promise<{
    write(bytes: Uint8Array, options: { readonly at: number }): number;
    truncate(byteLength: number): void;
    flush(): void;
    close(): void;
  }>;
  move(folder: FileSystemDirectoryHandle, name: string): Promise<void>;
}

/** Returns the name of the lock that a writer holds for as long as it lives. */
const ofWriter = (writer: string): string => `shardwise-writer-${writer}`;

/**
 * Opens the storage that a browser keeps for the pages of one origin (OPFS). Neither other origins nor the user see it.
 * Throws CheckpointError if there is no such storage.
 */
export async function storageFiles(): Promise<StorageFiles> {
  const root = await rootFolder();
  const folderAt = async (
    path: string,
    options?: FileSystemGetDirectoryOptions,
  ): Promise<FileSystemDirectoryHandle> => {
    let folder = root;
    for (const name of splitPath(path)) folder = await folder.getDirectoryHandle(name, options);
    return folder;
  };
  const placeOf = async (
    path: string,
  ): Promise<{ readonly folder: FileSystemDirectoryHandle; readonly name: string }> => {
    const names = splitPath(path);
    const name = names.pop() ?? '';
    return { folder: await folderAt(names.join('/')), name };
  };
  const fileAt = async (path: string): Promise<File> => {
    const { folder, name } = await placeOf(path);
    return (await folder.getFileHandle(name)).getFile();
  };
  const find = async (path: string): Promise<FoundEntry | undefined> => {
    try {
      const { size, lastModified } = await fileAt(path);
      return { isFile: true, byteLength: size, modifiedMs: lastModified };
    } catch (error) {
      if (!isNamed(error, 'NotFoundError', 'TypeMismatchError', 'TypeError')) throw error;
    }
    try {
      return { isFile: false, byteLength: 0, modifiedMs: await newest(await folderAt(path)) };
    } catch (error) {
      if (!isNamed(error, 'NotFoundError', 'TypeMismatchError')) throw error;
      return undefined;
    }
  };
  /**
   * Moves the files of a folder in the given order. A folder of this storage can't be moved itself, but its files can.
   */
  const moveFiles = async (from: string, to: string, order: Order): Promise<void> => {
    if ((await find(to)) !== undefined) {
      throw Object.assign(new Error(`there is a ${to}`), { code: 'EEXIST' });
    }
    const [source, target] = [await folderAt(from), await folderAt(to, { create: true })];
    const names: string[] = [];
    for await (const name of source.keys()) names.push(name);
    for (const name of order(names)) {
      await movable(await source.getFileHandle(name)).move(target, name);
    }
    const { folder, name } = await placeOf(from);
    await folder.removeEntry(name);
  };
  const writer = `page-${crypto.randomUUID().slice(0, 8)}`;
  let hasLock = false;
  return {
    join: joinPath,
    checksum: crc32,
    find,
    file: fileAt,
    open: async (path) => blobFile(await fileAt(path)),

    async list(path) {
      const names: string[] = [];
      for await (const name of (await folderAt(path)).keys()) names.push(name);
      return names;
    },

    async makeDirectory(path) {
      if (!hasLock) holdLock(ofWriter(writer));
      hasLock = true;
      await folderAt(path, { create: true });
    },

    async writeFile(path, chunks) {
      const { folder, name } = await placeOf(path);
      const handle = await folder.getFileHandle(name, { create: true });
      const access = await movable(handle).createSyncAccessHandle();
      try {
        access.truncate(0);
        let at = 0;
        for await (const chunk of chunks) {
          const written = access.write(chunk, { at });
          if (written < chunk.byteLength) throw full(path, at + written);
          at += written;
        }
        access.flush();
      } finally {
        access.close();
      }
    },

    async rename(from, to) {
      const [source, target] = [await placeOf(from), await placeOf(to)];
      await movable(await source.folder.getFileHandle(source.name)).move(
        target.folder,
        target.name,
      );
    },

    publish: (from, to, index) =>
      moveFiles(from, to, (names) => [...names.filter((name) => name !== index), index]),
    withdraw: (from, to, index) =>
      moveFiles(from, to, (names) => [index, ...names.filter((name) => name !== index)]),

    async removeDirectory(path) {
      try {
        const { folder, name } = await placeOf(path);
        await folder.removeEntry(name, { recursive: true });
      } catch (error) {
        if (!isNamed(error, 'NotFoundError')) throw error;
      }
    },

    // writeFile has flushed each file, and this storage has no other call that makes data durable.
    syncDirectory: async () => {},

    writer,
    async isWriting(other) {
      const { locks } = globalThis.navigator;
      if (locks === undefined) return undefined;
      const { held = [] } = await locks.query();
      return other !== writer && held.some(({ name }) => name === ofWriter(other));
    },
  };
}

export interface StorageFiles extends CheckpointFiles {
  /** Returns a file. Its bytes are read when they are asked for. */
  file(path: string): Promise<File>;
}

type Order = (names: readonly string[]) => readonly string[];

async function rootFolder(): Promise<FileSystemDirectoryHandle> {
  const { storage } = globalThis.navigator;
  const refused = (found: string, cause?: unknown): CheckpointError =>
    new CheckpointError(
      {
        asked: "Checkpoints in the browser's storage for this page",
        found,
        todo: 'Serve the page over https or from localhost, in a window that is not private; or give a checkpoint as a file',
      },
      {},
      cause === undefined ? {} : { cause },
    );
  if (storage?.getDirectory === undefined) throw refused('this page has no such storage');
  try {
    return await storage.getDirectory();
  } catch (cause) {
    throw refused(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function holdLock(name: string): void {
  void globalThis.navigator.locks
    ?.request(name, () => new Promise(() => {}))
    .catch(() => undefined);
}

/**
 * Throws CheckpointError if the browser can't write files in this way, which includes every page outside of a worker.
 */
function movable(handle: FileSystemFileHandle): StoredFileHandle {
  if (isStored(handle)) return handle;
  throw new CheckpointError({
    asked: `Writing ${handle.name} to the browser's storage for this page`,
    found:
      'this browser can write and move files there in no way that survives a crash, or this is no worker',
    todo: 'Save in a rank, in a browser of 2023 or later',
  });
}

function isStored(handle: FileSystemFileHandle): handle is StoredFileHandle {
  return 'move' in handle && 'createSyncAccessHandle' in handle;
}

/** Returns when the newest file of a folder was written, because folders of this storage have no times of their own. */
async function newest(folder: FileSystemDirectoryHandle): Promise<number> {
  let newestMs = 0;
  for await (const entry of folder.values()) {
    if (entry.kind !== 'file') continue;
    newestMs = Math.max(newestMs, (await entry.getFile()).lastModified);
  }
  return newestMs;
}

function isNamed(error: unknown, ...names: readonly string[]): boolean {
  return error instanceof Error && names.includes(error.name);
}

function full(path: string, byteLength: number): Error {
  const error = new Error(`${path} ends after ${byteLength} bytes: there is no more room`);
  error.name = 'QuotaExceededError';
  return error;
}
