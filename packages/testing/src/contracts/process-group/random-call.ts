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

/** One collective call with random arguments, as data that can be sent to ranks. */
export interface RandomCall {
  readonly operation: RandomOperation;
  readonly dtype: DType;
  readonly op: ReduceOp;
  readonly elements: number;
  readonly root: number;
  /** `splits[i][j]` is the number of elements from rank i to rank j. */
  readonly splits: PerRank;
  readonly byteOffset: number;
  /** Whether the call works in place. Otherwise the result has memory of its own. allToAll has no form in place. */
  readonly inPlace: boolean;
  readonly seed: number;
}

/** Returns the elements that a rank contributes: n, size times n, or the sum of its splits. */
export function inputOf(call: RandomCall, size: number, rank: number): readonly number[] {
  const isDivided = call.operation === 'reduceScatter' || call.operation === 'scatter';
  const elements =
    call.operation === 'allToAll'
      ? sum(call.splits[rank] ?? [])
      : call.elements * (isDivided ? size : 1);
  return Array.from({ length: elements }, (_, index) => valueAt(call, rank, index));
}

/**
 * Returns the bytes that every rank must have after the call. Undefined for a rank to which the operation gives
 * nothing.
 */
export function expectedOf(call: RandomCall, size: number): readonly (Uint8Array | undefined)[] {
  const inputs = Array.from({ length: size }, (_, rank) => inputOf(call, size, rank));
  return valuesAfter(call, inputs).map((values) =>
    values === undefined ? undefined : bytesOf(call.dtype, values),
  );
}

/** Specifies the results of each operation, from the elements of all ranks. */
function valuesAfter(
  { operation, dtype, op, root, elements: n, splits, inPlace }: RandomCall,
  inputs: PerRank,
): readonly (readonly number[] | undefined)[] {
  const part = (values: readonly number[], rank: number): readonly number[] =>
    values.slice(rank * n, (rank + 1) * n);
  switch (operation) {
    case 'allReduce': {
      const total = reduced(inputs, dtype, op);
      return inputs.map(() => total);
    }
    case 'reduce': {
      const total = reduced(inputs, dtype, op);
      const kept = (own: readonly number[]): readonly number[] =>
        inPlace ? own : own.map(() => 0);
      return inputs.map((own, rank) => (rank === root ? total : kept(own)));
    }
    case 'reduceScatter': {
      const total = reduced(inputs, dtype, op);
      return inputs.map((_, rank) => part(total, rank));
    }
    case 'allGather': {
      const all = inputs.flat();
      return inputs.map(() => all);
    }
    case 'gather':
      return inputs.map((_, rank) => (rank === root ? inputs.flat() : undefined));
    case 'scatter':
      return inputs.map((_, rank) => part(inputs[root] ?? [], rank));
    case 'broadcast':
      return inputs.map(() => inputs[root]);
    case 'allToAll':
      return inputs.map((_, to) =>
        inputs.flatMap((row, from) => {
          const start = sum((splits[from] ?? []).slice(0, to));
          return row.slice(start, start + (splits[from]?.[to] ?? 0));
        }),
      );
    default:
      return operation satisfies never;
  }
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
  // Sevenths use all digits of an f32, so that rounding shows. The values of 16-bit dtypes are small dyadic fractions,
  // which are exact.
  const value = small === 8 ? 1 : small - 8;
  return dtypes[call.dtype].bytes === 2 ? value / 4 : Math.fround(value / 7);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
