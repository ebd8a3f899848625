import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { reduceElements } from '../reduce/reduce-elements.ts';
import { peersOf } from './peers.ts';
import { segmentsOf } from './segments.ts';
import type { Cost, Wire } from './wire.ts';

/**
 * Rank r reduces slice r of all ranks, then gives it to all. It moves as many bytes as a ring, but
 * a ring adds each slice in another order, and rank order is what makes every group give the same
 * bits. Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1 a2          rank 0  Σ0 .  .           rank 0  Σ0 Σ1 Σ2
 *   rank 1  b0 b1 b2    =>    rank 1  .  Σ1 .     =>    rank 1  Σ0 Σ1 Σ2
 *   rank 2  c0 c1 c2          rank 2  .  .  Σ2          rank 2  Σ0 Σ1 Σ2
 */
export async function twoPhaseAllReduce(
  wire: Wire,
  buffer: Uint8Array,
  dtype: DType,
  op: ReduceOp,
): Promise<void> {
  const peers = peersOf(wire);
  const slices = slicesOf(buffer, wire.size, dtypes[dtype].bytes).map(segmentsOf);
  const mine = slices[wire.rank]!;
  const sent = peers.flatMap((peer) => slices[peer]!.map((piece) => wire.send(peer, piece)));
  const arriving = mine.map((own) =>
    Array.from({ length: wire.size }, (_, rank) => {
      if (rank === wire.rank) return { bytes: own, done: Promise.resolve() };
      const bytes = new Uint8Array(own.byteLength);
      return { bytes, done: wire.recv(rank, bytes) };
    }),
  );
  const received = peers.flatMap((peer) => slices[peer]!.map((piece) => wire.recv(peer, piece)));
  for (const [index, own] of mine.entries()) {
    const sources = arriving[index]!;
    await Promise.all(sources.map((source) => source.done));
    const bytes = sources.map((source) => source.bytes);
    reduceElements(bytes, [own], dtype, op);
    sent.push(...peers.map((peer) => wire.send(peer, own)));
  }
  await Promise.all([...sent, ...received]);
}

/** One slice for each rank, of whole elements; the last ones may be shorter, or empty. */
function slicesOf(buffer: Uint8Array, size: number, elementBytes: number): readonly Uint8Array[] {
  const elements = Math.ceil(buffer.byteLength / elementBytes / size);
  const sliceBytes = elements * elementBytes;
  return Array.from({ length: size }, (_, rank) =>
    buffer.subarray(rank * sliceBytes, (rank + 1) * sliceBytes),
  );
}

export const twoPhaseAllReduceCost: Cost = {
  steps: (size) => (size > 1 ? 2 : 0),
  bytesPerRank: (size, bytes) => (2 * (size - 1) * bytes) / size,
};
