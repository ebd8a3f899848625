import { CheckpointError } from '@shardwise/core/extend';

/** Returns the path of an entry of a folder. '' is the outermost folder. */
export function joinPath(folder: string, name: string): string {
  return folder === '' ? name : `${folder.replace(/\/+$/, '')}/${name}`;
}

/**
 * Splits a path into names, starting at the outermost folder. Throws CheckpointError for a path that leads out of that
 * folder.
 */
export function splitPath(path: string): string[] {
  const names = path.split('/').filter((name) => name !== '' && name !== '.');
  if (!names.includes('..')) return names;
  throw new CheckpointError(
    {
      asked: `a file at ${path}`,
      found: '".." in it, which pages have not',
      todo: 'Name a folder from the outermost one on, as in runs/gpt',
    },
    { path },
  );
}
