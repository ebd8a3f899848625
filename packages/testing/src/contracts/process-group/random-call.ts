import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { bytesOf, reduced, type PerRank } from './specification.ts';

export type RandomOperation =
  | 'allReduce'
  | 'allGather'
  | 'reduceScatter'
  | 'allToAll'
  | 'broadcast'
  | 'reduce'
  | 'gather'
  | 'scatter';

/** One collective call with random arguments, as data that ranks can be sent. */
export interface RandomCall {
  readonly operation: RandomOperation;
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly elements: number;
  readonly root: number;
  /** `splits[i][j]`: elements from rank i to rank j. */
  readonly splits: PerRank;
  readonly byteOffset: number;
  readonly seed: number;
}

/** What every rank contributes: n, or size times n, or its splits. */
export function inputsOf(call: RandomCall, size: number): PerRank {
  return Array.from({ length: size }, (_, rank) => {
    const elements = {
      allReduce: call.elements,
      allGather: call.elements,
      reduceScatter: call.elements * size,
      allToAll: sum(call.splits[rank] ?? []),
      broadcast: call.elements,
      reduce: call.elements,
      gather: call.elements,
      scatter: call.elements * size,
    }[call.operation];
    return Array.from({ length: elements }, (_, index) => valueAt(call, rank, index));
  });
}

/** What every rank must have afterwards; undefined where an operation leaves it nothing. */
export function expectedOf(call: RandomCall, size: number): readonly (Uint8Array | undefined)[] {
  const inputs = inputsOf(call, size);
  const { dtype, op, root, elements: n } = call;
  const columns = (rank: number): readonly number[] =>
    inputs.flatMap((row, from) => {
      const start = sum((call.splits[from] ?? []).slice(0, rank));
      return row.slice(start, start + (call.splits[from]?.[rank] ?? 0));
    });
  const part = (values: readonly number[], rank: number): readonly number[] =>
    values.slice(rank * n, (rank + 1) * n);
  const values: Record<RandomOperation, (rank: number) => readonly number[] | undefined> = {
    allReduce: () => reduced(inputs, dtype, op),
    allGather: () => inputs.flat(),
    reduceScatter: (rank) => part(reduced(inputs, dtype, op), rank),
    allToAll: columns,
    broadcast: () => inputs[root],
    reduce: (rank) => (rank === root ? reduced(inputs, dtype, op) : inputs[rank]),
    gather: (rank) => (rank === root ? inputs.flat() : undefined),
    scatter: (rank) => part(inputs[root] ?? [], rank),
  };
  return inputs.map((_, rank) => {
    const expected = values[call.operation](rank);
    return expected === undefined ? undefined : bytesOf(dtype, expected);
  });
}

function valueAt(call: RandomCall, rank: number, index: number): number {
  const { kind } = dtypes[call.dtype];
  const bits = Math.imul(
    call.seed ^ Math.imul(rank + 1, 0x9e3779b1) ^ Math.imul(index, 0x85ebca6b),
    0xc2b2ae35,
  );
  const small = ((bits ^ (bits >>> 15)) >>> 0) % 17;
  if (kind === 'bool') return small % 2;
  if (call.dtype === 'u8') return small;
  if (kind === 'int') return small - 8;
  // Sevenths fill the mantissa, so that rounding shows; small dyadic values fit the short dtypes.
  const value = small === 8 ? 1 : small - 8;
  return dtypes[call.dtype].bytes === 2 ? value / 4 : Math.fround(value / 7);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
