import { dtypes } from '@shardwise/core/spec';
import type { Reduction } from './reduction.ts';
import { reduceRoundRing } from './ring-reduce-scatter.ts';
import { segmentsOf, slicesOf } from './segments.ts';
import type { Cost, Wire } from './wire.ts';

/**
 * Each slice goes round the ring twice: everyone adds to it, then everyone gets its sum. Not in
 * rank order, but as few bytes as can be, to the next rank only (Patarasuk and Yuan, 2009).
 * Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1 a2        Σ0 .  .         Σ0 Σ1 Σ2
 *   rank 1  b0 b1 b2   =>   .  Σ1 .    =>   Σ0 Σ1 Σ2
 *   rank 2  c0 c1 c2        .  .  Σ2        Σ0 Σ1 Σ2
 */
export async function ringAllReduce(
  wire: Wire,
  buffer: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const { rank, size } = wire;
  const next = (rank + 1) % size;
  const previous = (rank - 1 + size) % size;
  const slices = slicesOf(buffer, size, dtypes[reduction.dtype].bytes);
  // Results come as they went: first that of the rank before, last that of the rank behind.
  const results = Array.from({ length: size - 1 }, (_, step) =>
    segmentsOf(slices[(rank - 1 - step + size) % size]!).map((piece) => ({
      piece,
      goesOn: step < size - 2,
    })),
  ).flat();
  const arriving = results.map(({ piece }) => wire.recv(previous, piece, 1));
  const sent: Promise<void>[] = [];
  await reduceRoundRing(wire, slices, slices[rank]!, reduction, (piece) => {
    sent.push(wire.send(next, piece, 1));
  });
  for (const [index, { piece, goesOn }] of results.entries()) {
    await arriving[index];
    if (goesOn) sent.push(wire.send(next, piece, 1));
  }
  await Promise.all(sent);
}

export const ringAllReduceCost: Cost = {
  steps: (size) => 2 * (size - 1),
  bytesPerRank: (size, bytes) => (2 * (size - 1) * bytes) / size,
};
