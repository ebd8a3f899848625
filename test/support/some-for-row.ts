/**
 * Chooses columns of a table for one of `rows` rows, so that neighbouring rows have different ones and each column is
 * chosen for some row: at least `least` of them. A full test runs such a part of a large table, and a slow test runs all.
 */
export function someForRow<T>(
  { row, rows }: { readonly row: number; readonly rows: number },
  columns: readonly T[],
  least: number,
): readonly T[] {
  const count = Math.max(least, Math.ceil(columns.length / rows));
  const first = (row * count) % columns.length;
  return columns.filter((_, at) => (at - first + columns.length) % columns.length < count);
}
