import { binomialPlace, passOn } from './pass-on.ts';
import type { Cost, PerRank, Wire } from './wire.ts';

export function broadcastSpecification(inputs: PerRank, root: number): PerRank {
  return inputs.map(() => inputs[root]!);
}

/**
 * A binomial tree: in step k, the 2^k ranks that have the values, counted from root, each send
 * them to the rank that is 2^k further. Long messages go in segments that are passed on at once.
 *
 *   rank 0  a          rank 0  a          rank 0  a
 *   rank 1  .    =>    rank 1  a    =>    rank 1  a
 *   rank 2  .          rank 2  .          rank 2  a
 *   rank 3  .          rank 3  .          rank 3  a
 */
export function treeBroadcast(wire: Wire, buffer: Uint8Array, root: number): Promise<void> {
  const { rank, size } = wire;
  const { parent, children } = binomialPlace((rank - root + size) % size, size);
  const rankAt = (place: number): number => (place + root) % size;
  return passOn(wire, buffer, {
    parent: parent === undefined ? undefined : rankAt(parent),
    children: children.map(rankAt),
  });
}

export const treeBroadcastCost: Cost = {
  // The chain to the rank whose place has the most bits.
  steps: (size) => Math.floor(Math.log2(size)),
  bytesPerRank: (size, bytes) => Math.ceil(Math.log2(size)) * bytes,
};
