import type { Wire } from './wire.ts';

/**
 * A wire between some of the ranks, of which this is one: there, rank i is `members[i]`. Its hosts are as in a Wire;
 * without them all are on one.
 */
export function partOfWire(
  wire: Wire,
  members: readonly number[],
  hosts: Wire['hosts'] = [members.map((_, rank) => rank)],
): Wire {
  const worldRank = (rank: number): number => members[rank] ?? wire.rank;
  return {
    rank: members.indexOf(wire.rank),
    size: members.length,
    hosts,
    send: (to, bytes, stream) => wire.send(worldRank(to), bytes, stream),
    recv: (from, bytes, stream) => wire.recv(worldRank(from), bytes, stream),
  };
}
