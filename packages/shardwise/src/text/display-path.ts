import { relative } from 'node:path';

/** A path as the user would type it: relative where it lies below the working directory. */
export function displayPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === '' || short.startsWith('..') ? path : short;
}
