import { CheckpointError } from '@shardwise/core/extend';
import type { ReadableFiles } from '../../checkpoint/places/checkpoint-files.ts';
import { blobFile } from './blob-file.ts';
import { crc32 } from './crc32.ts';
import { joinPath, splitPath } from './page-path.ts';
import { filesOfTar } from './tar.ts';

/** Files that a visitor has picked: the archive of a checkpoint, or the files of its folder. */
export type PickedFiles = Blob | Iterable<File>;

/** Returns the files that have been picked, and the folder that contains all of them. Throws CheckpointError. */
export async function pickedFiles(
  picked: PickedFiles,
): Promise<{ readonly files: ReadableFiles; readonly directory: string }> {
  const byPath = new Map<string, Blob>();
  for (const { path, contents } of await entriesOf(picked)) {
    const clean = splitPath(path).join('/');
    if (byPath.has(clean)) {
      throw new CheckpointError(
        {
          asked: 'A checkpoint of the files that were picked',
          found: `two of them that are named ${clean}`,
          todo: 'Pick the files of one checkpoint, which are those of one step-… folder',
        },
        { name: clean },
      );
    }
    byPath.set(clean, contents);
  }
  const directory = commonFolder([...byPath.keys()]);
  return {
    directory,
    files: {
      join: joinPath,
      checksum: crc32,
      async find(path) {
        const found = byPath.get(path);
        if (found === undefined) return undefined;
        const modifiedMs = found instanceof File ? found.lastModified : 0;
        return { isFile: true, byteLength: found.size, modifiedMs };
      },
      async open(path) {
        const found = byPath.get(path);
        if (found === undefined) throw new Error(`${path} was not picked`);
        return blobFile(found);
      },
    },
  };
}

async function entriesOf(
  picked: PickedFiles,
): Promise<readonly { readonly path: string; readonly contents: Blob }[]> {
  if (picked instanceof Blob) {
    return filesOfTar(picked, picked instanceof File ? picked.name : 'the archive');
  }
  const list = [...picked];
  const [first] = list;
  if (first === undefined) {
    throw new CheckpointError({
      asked: 'A checkpoint of the files that were picked',
      found: 'none',
      todo: 'Pick an archive of a checkpoint, or the files of its folder',
    });
  }
  // The visitor may have picked a single archive in an input for several files.
  if (list.length === 1) return filesOfTar(first, first.name);
  return list.map((file) => ({ path: file.webkitRelativePath || file.name, contents: file }));
}

/** Returns the innermost folder that contains all paths. */
function commonFolder(paths: readonly string[]): string {
  const [first = '', ...others] = paths.map((path) => path.split('/').slice(0, -1).join('/'));
  const names = first.split('/');
  while (names.length > 0) {
    const folder = names.join('/');
    if (others.every((other) => other === folder || other.startsWith(`${folder}/`))) return folder;
    names.pop();
  }
  return '';
}
