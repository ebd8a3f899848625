import { formatShape, normalizeDim } from '../shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';

/** Counted from the start. Throws ShapeError for a dim that is named twice. */
export function differentDims(op: string, shape: Shape, dims: readonly number[]): number[] {
  const list = dims.map((dim) => normalizeDim(op, dim, shape.length));
  if (new Set(list).size === list.length) return list;
  throw new ShapeError(
    {
      asked: `${op} of shape ${formatShape(shape)} along [${dims.join(', ')}]`,
      found: 'a dim that is named twice',
      todo: 'Name each dim once',
    },
    { shape, dims },
  );
}
