/** A rank that cannot go on. */
export interface BlockedRank {
  readonly rank: number;
  /** The number of actions that the rank has done, and the text of the action that it cannot do. */
  readonly position: number;
  readonly action: string;
  /** The computation that the rank waits for, and the rank that does it. */
  readonly waitsFor: string;
  readonly waitsForRank: number;
}

/**
 * Describes on one line the ranks that wait for each other. If there is no such cycle, it describes the first rank that
 * waits.
 */
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
