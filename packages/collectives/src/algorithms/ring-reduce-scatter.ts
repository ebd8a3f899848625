import { receiveAhead } from './receive-ahead.ts';
import { asPartial, partialBytes, reduceAll, type Reduction } from './reduction.ts';
import { segmentsOf } from './segments.ts';
import type { Cost, Wire } from './wire.ts';

/**
 * Each part goes round the ring, from the rank after its owner to its owner, and everyone adds to
 * it: not in rank order, but each part in another one. Messages go to the next rank only
 * (Patarasuk and Yuan, 2009). Specification: reduceScatterSpecification.
 *
 *   rank 0  a0 a1 a2        .     .     c2+a2        Σ0
 *   rank 1  b0 b1 b2   =>   a0+b0 .     .       =>   Σ1
 *   rank 2  c0 c1 c2        .     b1+c1 .            Σ2
 */
export function ringReduceScatter(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const partBytes = output.byteLength;
  const parts = Array.from({ length: wire.size }, (_, part) =>
    input.subarray(part * partBytes, (part + 1) * partBytes),
  );
  return reduceRoundRing(wire, parts, output, reduction, () => {});
}

/** This rank's part of `parts` is reduced into `output`; `done` is called as pieces of it are. */
export async function reduceRoundRing(
  wire: Wire,
  parts: readonly Uint8Array[],
  output: Uint8Array,
  reduction: Reduction,
  done: (piece: Uint8Array) => void,
): Promise<void> {
  const { rank, size } = wire;
  const { dtype, op, reducer } = reduction;
  const next = (rank + 1) % size;
  const from = (rank - 1 + size) % size;
  const piecesOf = (stepsBack: number): readonly Uint8Array[] =>
    segmentsOf(parts[(rank - stepsBack + size) % size]!);
  const results = segmentsOf(output);
  if (size === 1) {
    for (const [index, result] of results.entries()) {
      reduceAll(reduction, [piecesOf(0)[index]!], result);
    }
    return;
  }
  // In the order in which they come: of the parts that go on to other ranks, then of the own.
  const pieces = Array.from({ length: size - 1 }, (_, step) => piecesOf((step + 2) % size)).flat();
  const passing = pieces.length - results.length;
  const turns = pieces.map(({ byteLength }) => [
    { from, byteLength: partialBytes(dtype, byteLength) },
  ]);
  const arrivals = receiveAhead(wire, turns, reducer);
  const first = arrivals.next();
  // Nobody waits until a sum is sent: round a ring, all would wait for each other.
  const sent = piecesOf(1).map((own) => wire.send(next, asPartial(reduction, own)));
  let turn = await first;
  for (const [index, own] of pieces.entries()) {
    if (turn.done === true) break;
    const [partial] = turn.value;
    const result = results[index - passing];
    if (result === undefined) {
      const sum = reducer.borrow(partialBytes(dtype, own.byteLength));
      reducer.fold({ partial, sources: [own], dtype, op, total: undefined }, sum);
      sent.push(wire.send(next, sum).then(() => reducer.giveBack(sum)));
    } else {
      reducer.fold({ partial, sources: [own], dtype, op, total: size }, result);
      done(result);
    }
    turn = await arrivals.next();
  }
  await Promise.all(sent);
}

export const ringReduceScatterCost: Cost = {
  steps: (size) => size - 1,
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
