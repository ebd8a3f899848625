import { dtypes } from '@shardwise/core/spec';
import { agreedBefore, peersOf, type Agreement, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { fragmentsOf, slicesOf } from './fragments.ts';
import { receiveAhead } from './receive-ahead.ts';
import { reduceAll, type Reduction } from './partial-sums.ts';

/**
 * Rank r reduces slice r of all ranks, then gives the result to all. This moves as many bytes as a ring. It adds in
 * rank order, so that every kind of group gives the same bits. In a ring each slice would be added in another order.
 * Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1 a2          rank 0  Σ0 .  .           rank 0  Σ0 Σ1 Σ2
 *   rank 1  b0 b1 b2    =>    rank 1  .  Σ1 .     =>    rank 1  Σ0 Σ1 Σ2
 *   rank 2  c0 c1 c2          rank 2  .  .  Σ2          rank 2  Σ0 Σ1 Σ2
 */
export async function twoPhaseAllReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  reduction: Reduction,
  { agreed }: Agreement = agreedBefore,
): Promise<void> {
  const { rank, size } = communicator;
  const peers = peersOf(communicator);
  const slices = slicesOf(buffer, size, dtypes[reduction.dtype].bytes).map((slice) =>
    fragmentsOf(slice),
  );
  const mine = slices[rank]!;
  const turns = mine.map(({ byteLength }) => peers.map((from) => ({ from, byteLength })));
  const contributions = receiveAhead(communicator, turns, reduction.reducer);
  const first = contributions.next();
  const moving = peers.flatMap((peer) =>
    slices[peer]!.map((fragment) => communicator.send(peer, fragment)),
  );
  for (const peer of peers)
    moving.push(...slices[peer]!.map((fragment) => communicator.recv(peer, fragment, 1)));
  let turn = await first;
  for (const own of mine) {
    if (turn.done === true) break;
    await agreed;
    const buffers = turn.value;
    const sources = Array.from({ length: size }, (_, r) => buffers[peers.indexOf(r)] ?? own);
    reduceAll(reduction, sources, own);
    moving.push(...peers.map((peer) => communicator.send(peer, own, 1)));
    turn = await contributions.next();
  }
  await Promise.all(moving);
}

export const twoPhaseAllReduceCost: Cost = {
  rounds: (size) => (size > 1 ? 2 : 0),
  bytesPerRank: (size, bytes) => (2 * (size - 1) * bytes) / size,
};
