import { peersOf } from './peers.ts';
import { receiveAhead } from './receive-ahead.ts';
import { reduceAll, type Reduction } from './reduction.ts';
import { segmentsOf } from './segments.ts';
import type { Cost, PerRank, Reduce, Wire } from './wire.ts';

export function reduceScatterSpecification(inputs: PerRank, reduce: Reduce): PerRank {
  const total = inputs.reduce((sum, row) => sum.map((value, i) => reduce(value, row[i]!)));
  const part = total.length / inputs.length;
  return inputs.map((_, rank) => total.slice(rank * part, (rank + 1) * part));
}

/**
 * Everyone sends part r to rank r, which reduces in rank order; as many bytes as a ring, which
 * could not keep that order.
 *
 *   rank 0  a0 a1 a2          rank 0  a0+b0+c0
 *   rank 1  b0 b1 b2    =>    rank 1  a1+b1+c1
 *   rank 2  c0 c1 c2          rank 2  a2+b2+c2
 */
export async function directReduceScatter(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const partBytes = output.byteLength;
  const piecesOf = (rank: number): readonly Uint8Array[] =>
    segmentsOf(input.subarray(rank * partBytes, (rank + 1) * partBytes));
  const peers = peersOf(wire);
  const mine = piecesOf(wire.rank);
  const results = segmentsOf(output);
  const turns = mine.map(({ byteLength }) => peers.map((from) => ({ from, byteLength })));
  const sent = peers.flatMap((peer) => piecesOf(peer).map((piece) => wire.send(peer, piece)));
  let index = 0;
  for await (const buffers of receiveAhead(wire, turns, reduction.reducer)) {
    const own = mine[index]!;
    const sources = Array.from({ length: wire.size }, (_, r) => buffers[peers.indexOf(r)] ?? own);
    reduceAll(reduction, sources, results[index]!);
    index += 1;
  }
  await Promise.all(sent);
}

export const directReduceScatterCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
