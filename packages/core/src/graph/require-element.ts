import type { DType } from '../spec/dtype.ts';
import { describeValue, DTypeError } from '../spec/errors.ts';

/** The least and the largest element. For i64 they are those that a JavaScript number represents exactly. */
const ranges: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  i64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u8: [0, 255],
  bool: [0, 1],
};

/**
 * Throws DTypeError for a number that an integer or bool tensor cannot represent exactly, and for a value that is not a
 * number, because arithmetic would turn it into NaN.
 */
export function requireElement(dtype: DType, value: number): void {
  const range = ranges[dtype];
  if (range === undefined) {
    if (typeof value !== 'number') throw noElement(dtype, value, 'no number');
    return;
  }
  const [least, largest] = range;
  if (Number.isInteger(value) && value >= least && value <= largest) return;
  throw noElement(dtype, value, `${dtype} holds whole numbers from ${least} to ${largest}`);
}

function noElement(dtype: DType, value: unknown, found: string): DTypeError {
  return new DTypeError(
    {
      asked: `${describeValue(value)} as an element of ${dtype}`,
      found,
      todo: 'Use another number or dtype',
    },
    { dtype, value },
  );
}
