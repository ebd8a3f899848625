import { formatShape, normalizeDim } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';

/**
 * Returns the dims counted from the start, in the given order. Throws ShapeError for a dim that is named twice, and for
 * a number of dims other than `count`.
 */
export function differentDims(
  op: string,
  shape: Shape,
  dims: readonly number[],
  count: number = dims.length,
): number[] {
  const list = dims.map((dim) => normalizeDim(op, dim, shape.length));
  const { size } = new Set(list);
  if (size === count) return list;
  throw new ShapeError(
    {
      asked: `${op} of shape ${formatShape(shape)} by [${dims.join(', ')}]`,
      found: `${size} different dims of ${count}`,
      todo: 'Name each dim once',
    },
    { shape, dims },
  );
}
