import type { Shape } from '../spec/dtype.ts';
import { describeValue, ShapeError } from '../spec/errors.ts';

/** The number of elements. It is 1 for a scalar. */
export function elementCount(shape: Shape): number {
  let count = 1;
  for (let dim = 0; dim < shape.length; dim++) count *= shape[dim] ?? 1;
  return count;
}

/** Whether two shapes have the same dims. Two numbers of rows that only a run knows (NaN) count as the same. */
export function sameShape(a: Shape, b: Shape): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let dim = 0; dim < a.length; dim++) if (!Object.is(a[dim], b[dim])) return false;
  return true;
}

/** A shape as messages show it: `[2, 3]`. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(', ')}]`;
}

/** The size of a dim that must exist. */
export function sizeAt(shape: Shape, dim: number): number {
  const size = shape[dim];
  if (size === undefined) throw new RangeError(`dim ${dim} of shape ${formatShape(shape)}`);
  return size;
}

/**
 * Converts a dim that counts from the end into one that counts from the start. Throws ShapeError if it is out
 * of range.
 */
export function normalizeDim(operation: string, dim: number, ndim: number): number {
  const normalized = dim < 0 ? dim + ndim : dim;
  if (!Number.isInteger(dim) || normalized < 0 || normalized >= ndim) {
    throw new ShapeError(
      {
        asked: `${operation} along dim ${describeValue(dim)}`,
        found: `a tensor of ${ndim} dims`,
        todo:
          ndim === 0
            ? 'Use a tensor with at least one dim'
            : `Use a dim from ${-ndim} to ${ndim - 1}`,
      },
      { dim, ndim },
    );
  }
  return normalized;
}

/** Whether a tensor of `shape` broadcasts to `target`, and would not make it larger. */
export function broadcastsTo(shape: Shape, target: Shape): boolean {
  const first = target.length - shape.length;
  return first >= 0 && shape.every((size, dim) => size === 1 || size === target[first + dim]);
}

/** NumPy's rule: dims align at the end, and sizes are equal or one of them is 1. Throws ShapeError. */
export function broadcastShapes(operation: string, a: Shape, b: Shape): Shape {
  if (sameShape(a, b)) return a;
  const ndim = Math.max(a.length, b.length);
  const result: number[] = Array.from({ length: ndim }, () => 1);
  for (let i = 1; i <= ndim; i++) {
    const sizeA = a[a.length - i] ?? 1;
    const sizeB = b[b.length - i] ?? 1;
    if (!Object.is(sizeA, sizeB) && sizeA !== 1 && sizeB !== 1) {
      throw new ShapeError(
        {
          asked: `${operation} of shapes ${formatShape(a)} and ${formatShape(b)}`,
          found: `sizes ${sizeA} and ${sizeB} at dim -${i}, which do not broadcast`,
          todo: 'Make the sizes equal, or one of them 1 (reshape, expand or slice an input)',
        },
        { a, b, dim: -i },
      );
    }
    result[ndim - i] = sizeA === 1 ? sizeB : sizeA;
  }
  return result;
}
