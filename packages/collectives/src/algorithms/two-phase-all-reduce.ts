import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { plain, type AllReduceOptions } from './all-reduce-options.ts';
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
  { reducer, agreed }: AllReduceOptions = plain,
): Promise<void> {
  const peers = peersOf(wire);
  const slices = slicesOf(buffer, wire.size, dtypes[dtype].bytes).map(segmentsOf);
  const mine = slices[wire.rank]!;
  const sent = peers.flatMap((peer) => slices[peer]!.map((piece) => wire.send(peer, piece)));
  const arrive = (own: Uint8Array): Arriving => {
    const sources = Array.from({ length: wire.size }, (_, rank) =>
      rank === wire.rank ? own : reducer.borrow(own.byteLength),
    );
    const done = Promise.all(peers.map((peer) => wire.recv(peer, sources[peer]!)));
    // Where an earlier piece fails, nobody awaits this one.
    done.catch(() => {});
    return { sources, done };
  };
  const arriving = mine.slice(0, AHEAD).map(arrive);
  const received: Promise<void>[] = [];
  // Behind the last piece, as messages are received in the order of the calls.
  const awaitResults = (): void => {
    for (const peer of peers) {
      received.push(...slices[peer]!.map((piece) => wire.recv(peer, piece)));
    }
  };
  if (mine.length <= AHEAD) awaitResults();
  for (const [index, own] of mine.entries()) {
    const { sources, done } = arriving[index]!;
    await done;
    await agreed;
    reducer.reduce(sources, own, dtype, op);
    for (const peer of peers) reducer.giveBack(sources[peer]!);
    sent.push(...peers.map((peer) => wire.send(peer, own)));
    const next = mine[index + AHEAD];
    if (next !== undefined) arriving.push(arrive(next));
    if (index + AHEAD + 1 === mine.length) awaitResults();
  }
  await Promise.all([...sent, ...received]);
}

/** Pieces of all peers that are on their way to be reduced. */
interface Arriving {
  /** By rank. */
  readonly sources: readonly Uint8Array[];
  readonly done: Promise<unknown>;
}

/** Pieces that may come before their turn: few, so that they stay in the caches. */
const AHEAD = 4;

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
