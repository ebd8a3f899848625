/** A path as the user would type it: relative where it lies below the working directory. A page has none. */
export function displayPath(path: string): string {
  if (typeof process === 'undefined') return path;
  const folder = process.cwd();
  const below = [`${folder}/`, `${folder}\\`].find((start) => path.startsWith(start));
  return below === undefined ? path : path.slice(below.length);
}
