/** A rank that cannot go on. */
export interface BlockedRank {
  readonly rank: number;
  /** How many actions the rank has done, and the text of the one that it cannot do. */
  readonly position: number;
  readonly action: string;
  /** The computation that it waits for, and the rank that has it. */
  readonly waitsFor: string;
  readonly waitsForRank: number;
}

/** One line: the ranks that wait for each other, or, where there is no such cycle, the first that waits. */
export function describeBlocked(blocked: readonly BlockedRank[]): string {
  const byRank = new Map(blocked.map((each) => [each.rank, each]));
  let path: BlockedRank[] = [];
  for (let at = blocked[0]; at !== undefined; at = byRank.get(at.waitsForRank)) {
    const seen = path.indexOf(at);
    if (seen >= 0) {
      path = path.slice(seen);
      break;
    }
    path.push(at);
  }
  return path
    .map(
      ({ rank, position, action, waitsFor, waitsForRank }) =>
        `rank ${rank} at action ${position}, ${action}, waits for ${waitsFor} of rank ${waitsForRank}`,
    )
    .join('; ');
}
