import type { Wire } from './wire.ts';

/** A wire between some of the ranks, of which this is one: there, rank i is `members[i]`. */
export function partOfWire(wire: Wire, members: readonly number[]): Wire {
  const worldRank = (rank: number): number => members[rank] ?? wire.rank;
  const part = members.map((_, rank) => rank);
  return {
    rank: members.indexOf(wire.rank),
    size: members.length,
    hosts: [part],
    send: (to, bytes, stream) => wire.send(worldRank(to), bytes, stream),
    recv: (from, bytes, stream) => wire.recv(worldRank(from), bytes, stream),
  };
}
