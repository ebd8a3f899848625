import { formatShape, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { ShapeError } from '../spec/errors.ts';
import type { Op } from '../spec/op.ts';
import type { Node, RowCount } from './node.ts';

/** Whether only a run knows the number of rows. The size of dim 0 is then NaN. */
export function hasUnknownRows(shape: Shape): boolean {
  return Number.isNaN(shape[0]);
}

/**
 * The number of rows of a result, if only a run knows it. It is that of the inputs, or that of `like` if no input has
 * one, as when a value is repeated for the rows of `like`. Null if the size is known. Throws ShapeError if inputs have
 * numbers of rows that were computed separately, or if the size of another dim is not known.
 */
export function rowCountOf(
  op: Op,
  inputs: readonly Node[],
  shape: Shape,
  like: Node | null,
): RowCount | null {
  if (shape.some((size, dim) => dim > 0 && Number.isNaN(size))) {
    throw unknownFault(op, inputs, 'the operation would make it the size of another dim');
  }
  const [x, taken] = inputs;
  if (op === 'takeRows' && x !== undefined && taken !== undefined) {
    return { count: taken, max: sizeAt(x.shape, 0) };
  }
  const counts = inputs.flatMap(({ rowCount }) => rowCount ?? []);
  const [first = like?.rowCount ?? null] = counts;
  if (counts.some(({ count }) => count !== first?.count)) {
    throw unknownFault(op, inputs, 'rows would meet whose numbers were computed apart');
  }
  if (!hasUnknownRows(shape)) return null;
  if (first === null) throw unknownFault(op, inputs, 'no input has such rows');
  return { ...first, max: counts.reduce((least, { max }) => Math.min(least, max), first.max) };
}

/** The error of an op that needs to know how many rows there are. */
export function unknownFault(
  op: string,
  inputs: readonly { readonly shape: Shape }[],
  found: string,
): ShapeError {
  const shapes = inputs.map(({ shape }) => shape);
  return new ShapeError(
    {
      asked: `${op} of shapes ${shapes.map(formatShape).join(', ')}`,
      found: `a number of rows that only a run knows (NaN), and ${found}`,
      todo: 'Give it all rows that there may be with fillRows(), or read the number first: await count.item()',
    },
    { op, shapes },
  );
}
