import type { DType, ReduceOp } from '@shardwise/core/spec';
import { bfloat16Bits, typed, valuesOf } from './typed-values.ts';

/** Values of every rank, in rank order. */
export type PerRank = readonly (readonly number[])[];

/**
 * Reduces values in rank order. Each step is rounded to the dtype. 16-bit floats are reduced in f32 and rounded at the
 * end.
 */
export function reduced(inputs: PerRank, dtype: DType, op: ReduceOp): readonly number[] {
  const step = (value: number): number => roundTo(accumulators[dtype], value);
  const [first = [], ...rest] = inputs.map((row) =>
    typeof op === 'object'
      ? row.map((value) => step(value * roundTo(accumulators[dtype], op.premultipliedSum)))
      : row,
  );
  const combine = combines[typeof op === 'object' ? 'sum' : op];
  const total = rest.reduce<readonly number[]>(
    (sum, row) => sum.map((value, i) => step(combine(value, row[i] ?? Number.NaN))),
    first,
  );
  const mean = op === 'avg' ? total.map((value) => step(value / inputs.length)) : total;
  return mean.map((value) => roundTo(dtype, value));
}

const combines: Record<Exclude<ReduceOp, object>, (a: number, b: number) => number> = {
  sum: (a, b) => a + b,
  avg: (a, b) => a + b,
  product: (a, b) => a * b,
  min: Math.min,
  max: Math.max,
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
};

const accumulators: Record<DType, DType> = {
  f64: 'f64',
  f32: 'f32',
  f16: 'f32',
  bf16: 'f32',
  i64: 'i64',
  i32: 'i32',
  u8: 'u8',
  bool: 'bool',
};

function roundTo(dtype: DType, value: number): number {
  switch (dtype) {
    case 'f32':
      return Math.fround(value);
    case 'f16':
      return Math.f16round(value);
    case 'bf16':
      return valuesOf({
        bytes: new Uint8Array(Uint16Array.of(bfloat16Bits(value)).buffer),
        dtype: 'bf16',
      })[0]!;
    case 'i32':
      return Math.trunc(value) | 0;
    case 'u8':
      return value & 0xff;
    default:
      return value;
  }
}

/** Returns the bytes that a rank must have, for a comparison bit by bit. */
export function bytesOf(dtype: DType, values: readonly number[]): Uint8Array {
  return typed(dtype, values).bytes;
}
