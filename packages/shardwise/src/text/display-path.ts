/**
 * Returns a path as the user would type it, which is relative if it lies below the working directory. A page has no
 * working directory, so there the path stays as it is.
 */
export function displayPath(path: string): string {
  if (typeof process === 'undefined') return path;
  const folder = process.cwd();
  const below = [`${folder}/`, `${folder}\\`].find((start) => path.startsWith(start));
  return below === undefined ? path : path.slice(below.length);
}
