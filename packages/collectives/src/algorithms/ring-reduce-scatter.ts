import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { fragmentsOf } from './fragments.ts';
import { receiveAhead } from './receive-ahead.ts';
import { asPartial, partialBytes, reduceAll, type Reduction } from './partial-sums.ts';

/**
 * Each part goes round the ring, from the rank after its owner to its owner, and every rank adds its values to
 * it. Messages go to the next rank only (Patarasuk and Yuan, 2009). The parts are added in different orders,
 * none of which is rank order. Specification: reduceScatterSpecification.
 *
 *   rank 0  a0 a1 a2        .     .     c2+a2        Σ0
 *   rank 1  b0 b1 b2   =>   a0+b0 .     .       =>   Σ1
 *   rank 2  c0 c1 c2        .     b1+c1 .            Σ2
 */
export function ringReduceScatter(
  communicator: Communicator,
  input: Uint8Array,
  output: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const partBytes = output.byteLength;
  const parts = Array.from({ length: communicator.size }, (_, part) =>
    input.subarray(part * partBytes, (part + 1) * partBytes),
  );
  return reduceRoundRing(communicator, parts, output, reduction, () => {});
}

/**
 * Reduces this rank's part of `parts` into `output`. `done` is called for each fragment of the part that is reduced.
 */
export async function reduceRoundRing(
  communicator: Communicator,
  parts: readonly Uint8Array[],
  output: Uint8Array,
  reduction: Reduction,
  done: (fragment: Uint8Array) => void,
): Promise<void> {
  const { rank, size } = communicator;
  const { dtype, op, reducer } = reduction;
  const next = (rank + 1) % size;
  const from = (rank - 1 + size) % size;
  const partFragments = (ranksBack: number): readonly Uint8Array[] =>
    fragmentsOf(parts[(rank - ranksBack + size) % size]!);
  const results = fragmentsOf(output);
  if (size === 1) {
    for (const [index, result] of results.entries()) {
      reduceAll(reduction, [partFragments(0)[index]!], result);
    }
    return;
  }
  // Fragments in the order in which they come: first those of the parts that go on to other ranks, then this
  // rank's.
  const fragments = Array.from({ length: size - 1 }, (_, round) =>
    partFragments((round + 2) % size),
  ).flat();
  const passing = fragments.length - results.length;
  const turns = fragments.map(({ byteLength }) => [
    { from, byteLength: partialBytes(dtype, byteLength) },
  ]);
  const arrivals = receiveAhead(communicator, turns, reducer);
  const first = arrivals.next();
  // No rank waits until its sum is sent: in a ring, all ranks would wait for each other.
  const sent = partFragments(1).map((own) => communicator.send(next, asPartial(reduction, own)));
  let turn = await first;
  for (const [index, own] of fragments.entries()) {
    if (turn.done === true) break;
    const [partial] = turn.value;
    const result = results[index - passing];
    if (result === undefined) {
      const sum = reducer.borrow(partialBytes(dtype, own.byteLength));
      reducer.fold({ partial, sources: [own], dtype, op, total: undefined }, sum);
      sent.push(communicator.send(next, sum).then(() => reducer.giveBack(sum)));
    } else {
      reducer.fold({ partial, sources: [own], dtype, op, total: size }, result);
      done(result);
    }
    turn = await arrivals.next();
  }
  await Promise.all(sent);
}

export const ringReduceScatterCost: Cost = {
  rounds: (size) => size - 1,
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
