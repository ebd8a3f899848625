import { requireIntegers } from '../../base/check-options.ts';
import { concat, expandTo, reshape, sliceDim } from '../../graph/ops/movement.ts';
import { indexSelect } from '../../graph/ops/index-ops.ts';
import { iota } from '../../graph/ops/leaf.ts';
import { offset, neg } from '../../graph/ops/elementwise.ts';
import type { Node } from '../../graph/node.ts';
import { elementCount, formatShape, normalizeDim, sizeAt } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { differentDims } from '../different-dims.ts';

/**
 * torch.Tensor.repeat: repeats the tensor times[i] times along dim i. Counts in front of those for the tensor's dims
 * add dims.
 * Shape: [A, B], [r, s] -> [rA, sB].
 */
export function repeat(op: 'repeat' | 'tile', x: Node, times: Shape): Node {
  times.forEach((repeats) => requireIntegers(op, { repeats }, 0));
  const missing = times.length - x.shape.length;
  if (missing < 0) throw tooFew(op, x.shape, times);
  const shape = [...Array.from({ length: missing }, () => 1), ...x.shape];
  const split = reshape(
    x,
    shape.flatMap((size) => [1, size]),
  );
  const repeated = expandTo(
    split,
    shape.flatMap((size, dim) => [sizeAt(times, dim), size]),
  );
  return reshape(
    repeated,
    shape.map((size, dim) => size * sizeAt(times, dim)),
  );
}

/** torch.tile: does what `repeat` does, where missing counts in front are 1. */
export function tile(x: Node, times: Shape): Node {
  const missing = Math.max(0, x.shape.length - times.length);
  return repeat('tile', x, [...Array.from({ length: missing }, () => 1), ...times]);
}

/**
 * Repeats each element `repeats` times in a row. Without a dim, it does so in the flattened tensor.
 * Shape: [.., D, ..] -> [.., rD, ..].
 */
export function repeatInterleave(x: Node, repeats: number, dim: number | undefined): Node {
  requireIntegers('repeatInterleave', { repeats }, 0);
  if (dim === undefined) {
    return repeatInterleave(reshape(x, [elementCount(x.shape)]), repeats, 0);
  }
  const d = normalizeDim('repeatInterleave', dim, x.shape.length);
  const size = sizeAt(x.shape, d);
  const [before, after] = [x.shape.slice(0, d), x.shape.slice(d + 1)];
  const split = reshape(x, [...before, size, 1, ...after]);
  const repeated = expandTo(split, [...before, size, repeats, ...after]);
  return reshape(repeated, [...before, size * repeats, ...after]);
}

/** Reverses the order of elements along these dims. Shape: N -> N. */
export function flip(x: Node, dims: readonly number[]): Node {
  let flipped = x;
  for (const dim of differentDims('flip', x.shape, dims)) {
    const size = sizeAt(x.shape, dim);
    if (size > 1) flipped = indexSelect(flipped, dim, offset(neg(iota([size], 0)), size - 1), null);
  }
  return flipped;
}

/** Moves elements by shifts[i] along dims[i]. Elements that leave at one end come in at the other. Shape: N -> N. */
export function roll(x: Node, shifts: readonly number[], dims: readonly number[]): Node {
  if (shifts.length !== dims.length || !shifts.every(Number.isSafeInteger)) {
    throw new ShapeError(
      {
        asked: `roll of shape ${formatShape(x.shape)} by [${shifts.join(', ')}] along [${dims.join(', ')}]`,
        found: `${shifts.length} shifts for ${dims.length} dims`,
        todo: 'Give a whole number for each dim',
      },
      { shifts, dims },
    );
  }
  return shifts.reduce((rolled, shift, i) => {
    const dim = normalizeDim('roll', sizeAt(dims, i), x.shape.length);
    const size = sizeAt(x.shape, dim);
    const moved = size === 0 ? 0 : ((shift % size) + size) % size;
    if (moved === 0) return rolled;
    const last = sliceDim(rolled, dim, size - moved, size);
    return concat([last, sliceDim(rolled, dim, 0, size - moved)], dim);
  }, x);
}

function tooFew(op: string, shape: Shape, times: Shape): ShapeError {
  return new ShapeError(
    {
      asked: `${op} of shape ${formatShape(shape)} by [${times.join(', ')}]`,
      found: `${times.length} counts for ${shape.length} dims`,
      todo: 'Give a count for each dim; tile() takes those that are missing for 1',
    },
    { shape, times },
  );
}
