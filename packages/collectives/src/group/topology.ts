import { ConfigError } from '@shardwise/core/spec';

/**
 * The number of each rank's host, by rank of the transport. Without `hosts`, all ranks are on one host. Throws
 * ConfigError for a list that does not fit the transport.
 */
export function hostNumbers(hosts: readonly number[] | undefined, size: number): readonly number[] {
  if (hosts === undefined) return Array.from({ length: size }, () => 0);
  if (hosts.length === size && hosts.every((host) => Number.isSafeInteger(host))) return [...hosts];
  throw new ConfigError(
    {
      asked: `A group with hosts [${hosts.join(', ')}]`,
      found: `its transport has ${size} ranks`,
      todo: 'Pass one whole number for each rank',
    },
    { hosts, size },
  );
}

/** The ranks of each host, ascending. The hosts stand in the order of their first ranks. */
export function ranksByHost(hosts: readonly number[]): readonly (readonly number[])[] {
  const ranks = new Map<number, number[]>();
  for (const [rank, host] of hosts.entries()) {
    const known = ranks.get(host);
    if (known === undefined) ranks.set(host, [rank]);
    else known.push(rank);
  }
  return [...ranks.values()];
}
