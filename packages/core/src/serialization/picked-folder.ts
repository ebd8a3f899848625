import { CheckpointError } from '../spec/errors.ts';
import { MAX_TEXT_BYTES, type ModelFolder } from './model-folder.ts';

/** A read from a file of the browser takes as long as copying some hundred kilobytes. */
const GAP_BYTES = 262_144;

/** The part of FileSystemDirectoryHandle that is used here. */
export interface DirectoryHandle {
  readonly name: string;
  getFileHandle(name: string): Promise<{ getFile(): Promise<File> }>;
}

/**
 * A folder that the visitor of a page has picked: the handle that `showDirectoryPicker()` and the page's own storage
 * give, or the files of `<input type="file" webkitdirectory>`. Only the bytes that are asked for are read into memory.
 */
export function pickedFolder(picked: DirectoryHandle | Iterable<File>): ModelFolder {
  const find = 'getFileHandle' in picked ? inDirectory(picked) : amongFiles(picked);
  return {
    place: 'getFileHandle' in picked ? picked.name : 'the picked files',

    async readText(name) {
      const file = await find(name);
      if (file === undefined || file.size <= MAX_TEXT_BYTES) return file?.text();
      throw new CheckpointError(
        {
          asked: `Reading ${name} as text`,
          found: `${file.size} bytes`,
          todo: `Pick a file of at most ${MAX_TEXT_BYTES} bytes`,
        },
        { name, byteLength: file.size },
      );
    },

    async open(name) {
      const file = await find(name);
      if (file === undefined) return undefined;
      return {
        byteLength: file.size,
        gapBytes: GAP_BYTES,
        async read(target, byteOffset) {
          const part = await file.slice(byteOffset, byteOffset + target.byteLength).arrayBuffer();
          target.set(new Uint8Array(part));
          return part.byteLength;
        },
        close: async () => {},
      };
    },
  };
}

type Find = (name: string) => Promise<File | undefined>;

function inDirectory(directory: DirectoryHandle): Find {
  return async (name) => {
    try {
      return await (await directory.getFileHandle(name)).getFile();
    } catch (error) {
      if (error instanceof Error && error.name === 'NotFoundError') return undefined;
      throw error;
    }
  };
}

/** Files of folders in the picked folder are not files of the model. */
function amongFiles(files: Iterable<File>): Find {
  const byName = new Map<string, File>();
  for (const file of files) {
    const path = 'webkitRelativePath' in file ? String(file.webkitRelativePath) : '';
    if (path.split('/').length <= 2) byName.set(file.name, file);
  }
  return async (name) => byName.get(name);
}
