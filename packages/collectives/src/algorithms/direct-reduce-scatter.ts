import { peersOf, type Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { fragmentsOf } from './fragments.ts';
import { receiveAhead } from './receive-ahead.ts';
import { reduceAll, type Reduction } from './partial-sums.ts';

/**
 * Everyone sends part r to rank r, which reduces in rank order. This moves as many bytes as a ring, which
 * cannot keep that order. Specification: reduceScatterSpecification.
 *
 *   rank 0  a0 a1 a2          rank 0  a0+b0+c0
 *   rank 1  b0 b1 b2    =>    rank 1  a1+b1+c1
 *   rank 2  c0 c1 c2          rank 2  a2+b2+c2
 */
export async function directReduceScatter(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const partBytes = output.byteLength;
  const partFragments = (rank: number): readonly Uint8Array[] =>
    fragmentsOf(input.subarray(rank * partBytes, (rank + 1) * partBytes));
  const peers = peersOf(communicator);
  const mine = partFragments(communicator.rank);
  const results = fragmentsOf(output);
  const turns = mine.map(({ byteLength }) => peers.map((from) => ({ from, byteLength })));
  const sent = peers.flatMap((peer) =>
    partFragments(peer).map((fragment) => communicator.send(peer, fragment)),
  );
  let index = 0;
  for await (const buffers of receiveAhead(communicator, turns, reduction.reducer)) {
    const own = mine[index]!;
    const sources = Array.from(
      { length: communicator.size },
      (_, r) => buffers[peers.indexOf(r)] ?? own,
    );
    reduceAll(reduction, sources, results[index]!);
    index += 1;
  }
  await Promise.all(sent);
}

export const directReduceScatterCost: Cost = {
  rounds: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
