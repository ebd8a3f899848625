import { BackendError } from '@shardwise/core/spec';
import type { DType, PrimitiveOp, Shape, ValueType } from '@shardwise/core/spec';
import { elementCount, NdArray } from './nd-array.ts';

/** An i64 value. Its elements do not fit the f64 of NdArray, and nothing is computed with them. */
export class LongIntegers implements ValueType {
  readonly shape: Shape;
  readonly dtype = 'i64';
  readonly values: BigInt64Array;

  constructor(shape: Shape, values: BigInt64Array) {
    this.shape = shape;
    this.values = values;
  }
}

/** The f64 that any narrower float rounds to the same value as the integer itself: inexact ones are odd. */
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

/** Numbers as i64, truncated towards zero. */
export function toLongIntegers({ shape, values }: NdArray): LongIntegers {
  const whole = Array.from(values, (x) => BigInt(Number.isFinite(x) ? Math.trunc(x) : 0));
  return new LongIntegers(shape, BigInt64Array.from(whole));
}

/** i64 as another dtype; unrounded where that is a float. */
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
 * A movement of i64. `move` moves f64 numbers, so it is given those of the elements, counted over all
 * inputs from 1 on; where 0 arrives, there is `fill`.
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
