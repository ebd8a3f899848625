import { dtypes } from '@shardwise/core/spec';
import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { fragmentsOf, slicesOf } from './fragments.ts';
import type { Reduction } from './partial-sums.ts';
import { reduceRoundRing } from './ring-reduce-scatter.ts';

/**
 * Each slice goes round the ring twice: first every rank adds its values to it, then every rank gets its sum.
 * This moves as few bytes as possible, and only to the next rank (Patarasuk and Yuan, 2009). Values are not
 * added in rank order. Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1 a2        Σ0 .  .         Σ0 Σ1 Σ2
 *   rank 1  b0 b1 b2   =>   .  Σ1 .    =>   Σ0 Σ1 Σ2
 *   rank 2  c0 c1 c2        .  .  Σ2        Σ0 Σ1 Σ2
 */
export async function ringAllReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const { rank, size } = communicator;
  const next = (rank + 1) % size;
  const previous = (rank - 1 + size) % size;
  const slices = slicesOf(buffer, size, dtypes[reduction.dtype].bytes);
  // The first result that comes is that of the previous rank, and the last one is that of the next rank.
  const results = Array.from({ length: size - 1 }, (_, round) =>
    fragmentsOf(slices[(rank - 1 - round + size) % size]!).map((fragment) => ({
      fragment,
      goesOn: round < size - 2,
    })),
  ).flat();
  const arriving = results.map(({ fragment }) => communicator.recv(previous, fragment, 1));
  const sent: Promise<void>[] = [];
  await reduceRoundRing(communicator, slices, slices[rank]!, reduction, (fragment) => {
    sent.push(communicator.send(next, fragment, 1));
  });
  for (const [index, { fragment, goesOn }] of results.entries()) {
    await arriving[index];
    if (goesOn) sent.push(communicator.send(next, fragment, 1));
  }
  await Promise.all(sent);
}

export const ringAllReduceCost: Cost = {
  rounds: (size) => 2 * (size - 1),
  bytesPerRank: (size, bytes) => (2 * (size - 1) * bytes) / size,
};
