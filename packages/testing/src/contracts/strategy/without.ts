/** What is left of `all` when each of `some`, which is plain data, is taken out of it once. */
export function without<T>(all: readonly T[], some: readonly T[]): T[] {
  const rest = some.map((item) => JSON.stringify(item));
  return all.filter((item) => {
    const at = rest.indexOf(JSON.stringify(item));
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
}
