import { agreedBefore, type Agreement } from './agreement.ts';
import { peersOf } from './peers.ts';
import { reduceAll, type Reduction } from './reduction.ts';
import type { Cost, PerRank, Reduce, Wire } from './wire.ts';

export function allReduceSpecification(inputs: PerRank, reduce: Reduce): PerRank {
  const total = inputs.reduce((sum, row) => sum.map((value, i) => reduce(value, row[i]!)));
  return inputs.map(() => total);
}

/**
 * Everyone sends everything to everyone, and reduces in rank order: for short messages.
 *
 *   rank 0  a          rank 0  a+b+c
 *   rank 1  b    =>    rank 1  a+b+c
 *   rank 2  c          rank 2  a+b+c
 */
export async function directAllReduce(
  wire: Wire,
  buffer: Uint8Array,
  reduction: Reduction,
  { agreed }: Agreement = agreedBefore,
): Promise<void> {
  const { reducer } = reduction;
  const sources = Array.from({ length: wire.size }, (_, rank) =>
    rank === wire.rank ? buffer : reducer.borrow(buffer.byteLength),
  );
  const peers = peersOf(wire);
  await Promise.all([
    ...peers.map((peer) => wire.send(peer, buffer)),
    ...peers.map((peer) => wire.recv(peer, sources[peer]!)),
  ]);
  await agreed;
  reduceAll(reduction, sources, buffer);
  for (const peer of peers) reducer.giveBack(sources[peer]!);
}

export const directAllReduceCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
