import { DataError, type ModelFolder, pathIn } from '@shardwise/core/extend';

/** What the JSON of a file of a folder says. Undefined if there is no such file. */
export async function jsonOf(folder: ModelFolder, name: string): Promise<unknown> {
  const text = await folder.readText(name);
  return text === undefined ? undefined : parseJson(text, pathIn(folder, name));
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
