import { segmentsOf } from './segments.ts';
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
export async function treeBroadcast(wire: Wire, buffer: Uint8Array, root: number): Promise<void> {
  const { rank, size } = wire;
  const place = (rank - root + size) % size;
  const parentStep = 2 ** Math.floor(Math.log2(Math.max(place, 1)));
  const children: number[] = [];
  for (let step = place === 0 ? 1 : 2 * parentStep; place + step < size; step *= 2) {
    children.push((rank + step) % size);
  }
  const sent: Promise<void>[] = [];
  for (const segment of segmentsOf(buffer)) {
    if (place > 0) await wire.recv((rank - parentStep + size) % size, segment);
    sent.push(...children.map((child) => wire.send(child, segment)));
  }
  await Promise.all(sent);
}

export const treeBroadcastCost: Cost = {
  // The chain to the rank whose place has the most bits.
  steps: (size) => Math.floor(Math.log2(size)),
  bytesPerRank: (size, bytes) => Math.ceil(Math.log2(size)) * bytes,
};
