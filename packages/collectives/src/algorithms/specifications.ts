/*
 * What each operation computes, whichever algorithm carries it out: a function from the values of all ranks
 * before the call to the values of all ranks after it. The tests compare every algorithm with these.
 */

/** One list of numbers for each rank, in rank order. */
export type PerRank = readonly (readonly number[])[];

/** Combines the values of two ranks. */
type Combine = (a: number, b: number) => number;

/** Shape: inputs W x [n] -> W x [n]. */
export function allReduceSpecification(inputs: PerRank, combine: Combine): PerRank {
  const total = reductionOf(inputs, combine);
  return inputs.map(() => total);
}

/** Shape: inputs W x [W*n] -> W x [n]. */
export function reduceScatterSpecification(inputs: PerRank, combine: Combine): PerRank {
  const total = reductionOf(inputs, combine);
  const part = total.length / inputs.length;
  return inputs.map((_, rank) => total.slice(rank * part, (rank + 1) * part));
}

/** Shape: inputs W x [n] -> on root [n], the other ranks keep their values. */
export function reduceSpecification(inputs: PerRank, root: number, combine: Combine): PerRank {
  const total = reductionOf(inputs, combine);
  return inputs.map((own, rank) => (rank === root ? total : own));
}

/** Shape: inputs W x [n] -> W x [W*n]. */
export function allGatherSpecification(inputs: PerRank): PerRank {
  const all = inputs.flat();
  return inputs.map(() => all);
}

/** Shape: inputs W x [n] -> on root [W*n], on the other ranks nothing. */
export function gatherSpecification(inputs: PerRank, root: number): PerRank {
  const all = inputs.flat();
  return inputs.map((_, rank) => (rank === root ? all : []));
}

/** Shape: on root [W*n] -> W x [n]. */
export function scatterSpecification(inputs: PerRank, root: number): PerRank {
  const part = inputs[root]!.length / inputs.length;
  return inputs.map((_, rank) => inputs[root]!.slice(rank * part, (rank + 1) * part));
}

/** Shape: on root [n] -> W x [n]. */
export function broadcastSpecification(inputs: PerRank, root: number): PerRank {
  return inputs.map(() => inputs[root]!);
}

/** `splits[i][j]` is the number of values that rank i sends to rank j. */
export function allToAllSpecification(inputs: PerRank, splits: PerRank): PerRank {
  const before = (i: number, j: number): number =>
    splits[i]!.slice(0, j).reduce((a, b) => a + b, 0);
  return inputs.map((_, to) =>
    inputs.flatMap((row, from) => row.slice(before(from, to), before(from, to + 1))),
  );
}

/** Combines the values of all ranks element by element, in rank order. */
function reductionOf(inputs: PerRank, combine: Combine): readonly number[] {
  return inputs.reduce((total, row) => total.map((value, i) => combine(value, row[i]!)));
}
