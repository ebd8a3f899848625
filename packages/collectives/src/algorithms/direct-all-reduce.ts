import { agreedBefore, peersOf, type Agreement, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { reduceAll, type Reduction } from './partial-sums.ts';

/**
 * Everyone sends everything to everyone, and reduces in rank order. This is for short messages. Specification:
 * allReduceSpecification.
 *
 *   rank 0  a          rank 0  a+b+c
 *   rank 1  b    =>    rank 1  a+b+c
 *   rank 2  c          rank 2  a+b+c
 */
export async function directAllReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  reduction: Reduction,
  { agreed }: Agreement = agreedBefore,
): Promise<void> {
  const { reducer } = reduction;
  const sources = Array.from({ length: communicator.size }, (_, rank) =>
    rank === communicator.rank ? buffer : reducer.borrow(buffer.byteLength),
  );
  const peers = peersOf(communicator);
  await Promise.all([
    ...peers.map((peer) => communicator.send(peer, buffer)),
    ...peers.map((peer) => communicator.recv(peer, sources[peer]!)),
  ]);
  await agreed;
  reduceAll(reduction, sources, buffer);
  for (const peer of peers) reducer.giveBack(sources[peer]!);
}

export const directAllReduceCost: Cost = {
  rounds: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
