/**
 * Decides by PyTorch's greedy rule which rank updates each whole parameter. In each group, the largest parameters come
 * first, equal ones in their order. Each goes to the first rank that has the fewest elements so far, counted over all
 * groups. Sizes are numbers of elements, by group.
 */
export function partitionParameters(
  groups: readonly (readonly number[])[],
  ranks: number,
): readonly (readonly number[])[] {
  const loads = Array.from({ length: ranks }, () => 0);
  return groups.map((sizes) => {
    const owners = sizes.map(() => 0);
    const largestFirst = [...sizes.entries()].sort(([, a], [, b]) => b - a);
    for (const [index, size] of largestFirst) {
      const owner = loads.indexOf(Math.min(...loads));
      loads[owner] = (loads[owner] ?? 0) + size;
      owners[index] = owner;
    }
    return owners;
  });
}
