/** Returns `all` without the elements of `some`. Each of them, which is plain data, is taken out once. */
export function without<T>(all: readonly T[], some: readonly T[]): T[] {
  const rest = some.map((item) => JSON.stringify(item));
  return all.filter((item) => {
    const at = rest.indexOf(JSON.stringify(item));
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
}
