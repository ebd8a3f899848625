/** Returns the means over ranks of lists that each of them has, such as the losses of its steps. */
export function meanOverRanks(ranks: readonly (readonly number[])[]): number[] {
  const [first = []] = ranks;
  return first.map(
    (_, at) => ranks.reduce((sum, values) => sum + (values[at] ?? Number.NaN), 0) / ranks.length,
  );
}
