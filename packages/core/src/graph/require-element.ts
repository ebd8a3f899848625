import type { DType } from '../spec/dtype.ts';
import { DTypeError } from '../spec/errors.ts';

/** [least, largest]; for i64 of what a number can say exactly. */
const ranges: Readonly<Partial<Record<DType, readonly [number, number]>>> = {
  i64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  i32: [-(2 ** 31), 2 ** 31 - 1],
  u8: [0, 255],
  bool: [0, 1],
};

/** Throws DTypeError for a number that an integer or bool tensor would hold as another one. */
export function requireElement(dtype: DType, value: number): void {
  const range = ranges[dtype];
  if (range === undefined) return;
  const [least, largest] = range;
  if (Number.isInteger(value) && value >= least && value <= largest) return;
  throw new DTypeError(
    {
      asked: `${value} as an element of ${dtype}`,
      found: `${dtype} holds whole numbers from ${least} to ${largest}`,
      todo: 'Use such a number, or another dtype',
    },
    { dtype, value },
  );
}

/** What a finite number must stay below to be finite in the dtype, where that is not as for f32. */
const infiniteFrom: Readonly<Partial<Record<DType, number>>> = {
  f64: Number.POSITIVE_INFINITY,
  f16: 65_520,
};

/** As requireElement. Throws DTypeError, too, for a finite number that a float of few bits would hold as infinity. */
export function requireFiniteElement(dtype: DType, value: number): void {
  requireElement(dtype, value);
  const isFinite = Math.abs(value) < (infiniteFrom[dtype] ?? 2 ** 128 - 2 ** 103);
  if (isFinite || !Number.isFinite(value)) return;
  throw new DTypeError(
    {
      asked: `${value} as an element of ${dtype}`,
      found: `${dtype} holds it as ${value < 0 ? '-' : ''}Infinity`,
      todo: 'Write Infinity where you mean it, or use a smaller number',
    },
    { dtype, value },
  );
}
