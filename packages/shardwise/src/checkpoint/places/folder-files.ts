import { crc32 } from 'node:zlib';
import type { ModelFolder, WritableFolder } from '@shardwise/core/extend';
import { stateName } from '../format/index-file.ts';
import type { CheckpointFiles, FoundEntry, ReadableFiles } from './checkpoint-files.ts';

/** The file with which a writer takes the name of a checkpoint. */
const WRITER_NAME = 'writer';
/** More bytes than a file has that is renamed, which is the one that names the latest checkpoint. */
const MAX_RENAMED_BYTES = 1024;

/** The files of a server. Their paths begin with what errors call the folder. */
export function folderFiles(folder: ModelFolder): ReadableFiles {
  const { place } = folder;
  return {
    join: (path, name) => `${path}/${name}`,
    checksum: (bytes) => crc32(bytes),
    ...(folder.list === undefined ? {} : { list: (path) => namesIn(folder, path) }),

    async find(path) {
      const name = nameOf(place, path);
      const file = name === '' ? undefined : await folder.open(name);
      if (file === undefined) return findFolder(folder, path);
      await file.close();
      return { isFile: true, byteLength: file.byteLength, modifiedMs: 0 };
    },

    async open(path) {
      const file = await folder.open(nameOf(place, path));
      if (file === undefined) throw new Error(`there is no ${path}`);
      return file;
    },
  };
}

/**
 * The files of a bucket. It has no folders that can be renamed, so a checkpoint is written under its own name, which
 * `claim` takes. It is one when its index is there, which is written last.
 */
export function bucketFiles(folder: WritableFolder): CheckpointFiles {
  const { place } = folder;
  const writer = crypto.randomUUID();
  const removeBelow = async (path: string): Promise<void> => {
    const entries = await folder.list(below(nameOf(place, path)));
    await folder.remove(entries.map(({ name }) => name));
  };
  return {
    ...folderFiles(folder),
    list: (path) => namesIn(folder, path),
    makeDirectory: async () => {},
    writeFile: (path, chunks) => folder.write(nameOf(place, path), chunks),

    async rename(from, to) {
      const text = await folder.readText(nameOf(place, from));
      if (text === undefined || text.length > MAX_RENAMED_BYTES) {
        throw new RangeError(`${from} is no file that can be renamed in a bucket`);
      }
      await folder.write(nameOf(place, to), [new TextEncoder().encode(text)]);
      await folder.remove([nameOf(place, from)]);
    },

    async claim(path) {
      const name = `${below(nameOf(place, path))}${WRITER_NAME}`;
      if (await folder.writeNew(name, new TextEncoder().encode(writer))) return;
      throw Object.assign(new Error(`there is a ${path}`), { code: 'EEXIST' });
    },

    publish: async () => {},

    async withdraw(from, _to, index) {
      await folder.remove([`${below(nameOf(place, from))}${index}`]);
      await removeBelow(from);
    },

    async removeDirectory(path) {
      const index = `${below(nameOf(place, path))}${stateName}`;
      // A checkpoint that is whole stays, also if the save has failed later. It may be the one that "latest" names.
      if ((await folder.open(index)) === undefined) await removeBelow(path);
    },

    syncDirectory: async () => {},
    writer,
    isWriting: async () => undefined,
  };
}

async function findFolder(folder: ModelFolder, path: string): Promise<FoundEntry | undefined> {
  const entries = await folder.list?.(below(nameOf(folder.place, path)));
  if (entries === undefined || entries.length === 0) return undefined;
  const modifiedMs = Math.max(...entries.map((entry) => entry.modifiedMs));
  return { isFile: false, byteLength: 0, modifiedMs };
}

/** The names of the files and folders of a folder. */
async function namesIn(folder: ModelFolder, path: string): Promise<readonly string[]> {
  const prefix = below(nameOf(folder.place, path));
  const entries = (await folder.list?.(prefix)) ?? [];
  return [...new Set(entries.map(({ name }) => name.slice(prefix.length).split('/', 1)[0] ?? ''))];
}

/** The name that a path has in the folder, which is empty for the folder itself. */
function nameOf(place: string, path: string): string {
  if (path === place) return '';
  if (path.startsWith(`${place}/`)) return path.slice(place.length + 1);
  throw new RangeError(`${path} is not in ${place}`);
}

function below(name: string): string {
  return name === '' ? '' : `${name}/`;
}
