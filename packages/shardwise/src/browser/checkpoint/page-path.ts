import { CheckpointError } from '@shardwise/core/extend';

/** The path of an entry of a folder; '' is the outermost folder. */
export function joinPath(folder: string, name: string): string {
  return folder === '' ? name : `${folder.replace(/\/+$/, '')}/${name}`;
}

/** The names of a path, from the outermost folder's on. Throws CheckpointError for one that leads out of it. */
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
