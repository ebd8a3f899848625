import { elementCount } from '@shardwise/core/base';
import type { DType, Shape } from '@shardwise/core/spec';
import { randomBits } from '../../interpreter/leaves.ts';
import { NdArray } from '../../interpreter/nd-array.ts';
import { roundToDType } from '../../interpreter/storage.ts';

/** Row-major elements, or one number for all of them. */
type Elements = readonly number[] | number;

/** Values in f32, row by row. One number stands for all elements. */
export function f32(shape: Shape, elements: Elements): NdArray {
  return hostValue(shape, 'f32', elements);
}

/** Values in i32, row by row. One number stands for all elements. */
export function i32(shape: Shape, elements: Elements): NdArray {
  return hostValue(shape, 'i32', elements);
}

/** Values 0 or 1, row by row. One number stands for all elements. */
export function bool(shape: Shape, elements: Elements): NdArray {
  return hostValue(shape, 'bool', elements);
}

/** Values of any dtype, rounded to it. Throws RangeError if their number is not that of the shape. */
export function hostValue(shape: Shape, dtype: DType, elements: Elements): NdArray {
  const count = elementCount(shape);
  const values =
    typeof elements === 'number'
      ? new Float64Array(count).fill(elements)
      : Float64Array.from(elements);
  if (values.length !== count) {
    throw new RangeError(`${values.length} elements for the shape [${shape.join(', ')}]`);
  }
  const value = new NdArray({ shape, dtype }, values);
  roundToDType(value);
  return value;
}

/** Values in f32 that are evenly distributed over [low, high). They are the same on every machine. */
export function uniform(shape: Shape, seed: number, low = -2, high = 2): NdArray {
  const unit = (i: number): number => (randomBits(seed, 1, i) >>> 8) * 2 ** -24;
  return f32(
    shape,
    Array.from({ length: elementCount(shape) }, (_, i) => low + unit(i) * (high - low)),
  );
}

interface IntegerRange {
  readonly low?: number;
  readonly high?: number;
  readonly dtype?: DType;
}

/** Random integers of [low, high]. Their sums and products are exact in f32, in any order. */
export function integers(shape: Shape, seed: number, range: IntegerRange = {}): NdArray {
  const { low = -4, high = 4, dtype = 'f32' } = range;
  const pick = (i: number): number => low + ((randomBits(seed, 2, i) >>> 0) % (high - low + 1));
  const elements = Array.from({ length: elementCount(shape) }, (_, i) => pick(i));
  return hostValue(shape, dtype, elements);
}

/** 0, 1, 2, … */
export function counting(shape: Shape, dtype: DType = 'f32'): NdArray {
  return hostValue(
    shape,
    dtype,
    Array.from({ length: elementCount(shape) }, (_, i) => i),
  );
}
