type Counts = readonly [number, number, number];

/** A box of the groups of threads of a dispatch, along three dims, from the group `first` on. */
export interface GroupRange {
  readonly first: Counts;
  readonly groups: Counts;
}

/** Divides the groups of a dispatch into `parts` ranges, or into single groups if there are fewer groups than that. */
export function divide(whole: GroupRange, parts: number): readonly GroupRange[] {
  const ranges: GroupRange[] = [whole];
  while (ranges.length < parts) {
    const at = largestOf(ranges);
    const range = ranges[at];
    const halves = range === undefined ? undefined : halved(range);
    if (halves === undefined) break;
    ranges.splice(at, 1, ...halves);
  }
  return ranges;
}

function largestOf(ranges: readonly GroupRange[]): number {
  const counts = ranges.map(({ groups: [x, y, z] }) => x * y * z);
  return counts.indexOf(Math.max(...counts));
}

/**
 * The two halves of a range, cut across the dim that has most groups (the last one of equal dims). Undefined for a
 * single group.
 */
function halved({ first, groups }: GroupRange): readonly [GroupRange, GroupRange] | undefined {
  const most = Math.max(...groups);
  if (most < 2) return undefined;
  const dim = groups.lastIndexOf(most);
  const half = Math.floor(most / 2);
  const changed = (counts: Counts, value: number): Counts => {
    const [x, y, z] = counts;
    return [dim === 0 ? value : x, dim === 1 ? value : y, dim === 2 ? value : z];
  };
  return [
    { first, groups: changed(groups, half) },
    { first: changed(first, (first[dim] ?? 0) + half), groups: changed(groups, most - half) },
  ];
}
