import { elementCount } from '@shardwise/core/base';
import { BackendError } from '@shardwise/core/spec';
import type { DType, PrimitiveOp, Shape, ValueType } from '@shardwise/core/spec';
import { NdArray } from './nd-array.ts';

/** An i64 value. The f64 elements of NdArray can't express all i64 values. Nothing is computed with an i64. */
export class LongIntegers implements ValueType {
  readonly shape: Shape;
  readonly dtype = 'i64';
  readonly values: BigInt64Array;

  constructor(shape: Shape, values: BigInt64Array) {
    this.shape = shape;
    this.values = values;
  }
}

/**
 * Returns an f64 that every narrower float type rounds like the integer itself. If the integer is not exact in f64, the
 * last bit is set (rounding to odd).
 */
function toFloat(x: bigint): number {
  const nearest = Number(x);
  if (BigInt(nearest) === x) return nearest;
  const magnitude = x < 0n ? -x : x;
  const shift = BigInt(magnitude.toString(2).length - 53);
  const odd = Number(((magnitude >> shift) | 1n) << shift);
  return x < 0n ? -odd : odd;
}

const narrow: { readonly [D in Exclude<DType, 'i64'>]: (x: bigint) => number } = {
  f64: Number,
  f32: toFloat,
  f16: toFloat,
  bf16: toFloat,
  i32: (x) => Number(BigInt.asIntN(32, x)),
  u8: (x) => Number(BigInt.asUintN(8, x)),
  bool: (x) => Number(x !== 0n),
};

/** Converts numbers to i64. They are truncated towards zero. */
export function toLongIntegers({ shape, values }: NdArray): LongIntegers {
  const whole = Array.from(values, (x) => BigInt(Number.isFinite(x) ? Math.trunc(x) : 0));
  return new LongIntegers(shape, BigInt64Array.from(whole));
}

/** Converts i64 to another dtype. A float is not rounded yet. */
export function fromLongIntegers(
  { shape, values }: LongIntegers,
  dtype: Exclude<DType, 'i64'>,
): NdArray {
  return new NdArray({ shape, dtype }, Float64Array.from(values, narrow[dtype]));
}

const taking: ReadonlySet<PrimitiveOp> = new Set<PrimitiveOp>([
  'constant',
  'cast',
  'reshape',
  'permute',
  'expand',
  'slice',
  'pad',
  'concat',
  'where',
  'gather',
  'scatter',
  'indexSelect',
]);

/** Throws BackendError for an op that is not defined on i64. */
export function checkLongIntegers(op: PrimitiveOp): void {
  if (taking.has(op)) return;
  throw new BackendError(
    {
      asked: `${op} of i64`,
      found: 'i64 is moved and cast, and not computed with',
      todo: 'Cast it to i32 first',
    },
    { op },
  );
}

/**
 * Moves elements of i64. `move` can only move f64 numbers. So it gets the numbers of the elements, counted over all
 * inputs from 1 on, and these are then replaced by the elements. 0 stands for `fill`.
 */
export function moveLongIntegers(
  shape: Shape,
  inputs: readonly (NdArray | LongIntegers)[],
  fill: number,
  move: (inputs: readonly NdArray[]) => NdArray,
): LongIntegers {
  const elements: bigint[] = [BigInt(fill)];
  const numbered = inputs.map((input) => {
    if (input instanceof NdArray) return input;
    const first = elements.length;
    for (const value of input.values) elements.push(value);
    const numbers = Float64Array.from({ length: elementCount(input.shape) }, (_, i) => first + i);
    return new NdArray({ shape: input.shape, dtype: 'f64' }, numbers);
  });
  const moved = move(numbered);
  return new LongIntegers(
    shape,
    BigInt64Array.from(moved.values, (number) => elements[number] ?? 0n),
  );
}
