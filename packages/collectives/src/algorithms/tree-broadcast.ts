import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { binomialPlace, passOn } from './pass-on.ts';

/**
 * The values go over a binomial tree: in round k, the 2^k ranks that have them, counted from root, each send
 * them to the rank that is 2^k after it. Long messages go in fragments, each of which is sent on as soon as it
 * comes. Specification: broadcastSpecification.
 *
 *   rank 0  a          rank 0  a          rank 0  a
 *   rank 1  .    =>    rank 1  a    =>    rank 1  a
 *   rank 2  .          rank 2  .          rank 2  a
 *   rank 3  .          rank 3  .          rank 3  a
 */
export function treeBroadcast(
  communicator: Communicator,
  buffer: Uint8Array,
  root: number,
): Promise<void> {
  const { rank, size } = communicator;
  const { parent, children } = binomialPlace((rank - root + size) % size, size);
  const rankAt = (place: number): number => (place + root) % size;
  return passOn(communicator, buffer, {
    parent: parent === undefined ? undefined : rankAt(parent),
    children: children.map(rankAt),
  });
}

export const treeBroadcastCost: Cost = {
  // The place with the most bits set is at the end of the longest chain.
  rounds: (size) => Math.floor(Math.log2(size)),
  bytesPerRank: (size, bytes) => Math.ceil(Math.log2(size)) * bytes,
};
