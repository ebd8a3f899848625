import { peersOf } from './peers.ts';
import { receiveAhead } from './receive-ahead.ts';
import { reduceAll, type Reduction } from './reduction.ts';
import { segmentsOf } from './segments.ts';
import type { Cost, PerRank, Reduce, Wire } from './wire.ts';

export function reduceSpecification(inputs: PerRank, root: number, reduce: Reduce): PerRank {
  const total = inputs.reduce((sum, row) => sum.map((value, i) => reduce(value, row[i]!)));
  return inputs.map((own, rank) => (rank === root ? total : own));
}

/**
 * Everyone sends to root, which reduces in rank order.
 *
 *   rank 0  a          rank 0  a+b+c
 *   rank 1  b    =>    rank 1  b
 *   rank 2  c          rank 2  c
 */
export async function directReduce(
  wire: Wire,
  buffer: Uint8Array,
  root: number,
  reduction: Reduction,
): Promise<void> {
  const pieces = segmentsOf(buffer);
  if (wire.rank !== root) {
    await Promise.all(pieces.map((piece) => wire.send(root, piece)));
    return;
  }
  const peers = peersOf(wire);
  const turns = pieces.map(({ byteLength }) => peers.map((from) => ({ from, byteLength })));
  let index = 0;
  for await (const buffers of receiveAhead(wire, turns, reduction.reducer)) {
    const own = pieces[index]!;
    const sources = Array.from({ length: wire.size }, (_, r) => buffers[peers.indexOf(r)] ?? own);
    reduceAll(reduction, sources, own);
    index += 1;
  }
}

export const directReduceCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};
