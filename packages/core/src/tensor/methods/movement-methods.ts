import { requireIntegers } from '../../base/check-options.ts';
import { expandTo, pad, permute, reshape, sliceDim } from '../../graph/ops/movement.ts';
import { elementCount, formatShape, normalizeDim, sizeAt } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { ShapeError } from '../../spec/errors.ts';
import { movedOrder } from '../arrange/moved-order.ts';
import { flip, repeat, repeatInterleave, roll, tile } from '../arrange/repeat.ts';
import { triangle } from '../arrange/triangle.ts';
import { listOf, requireElementAt, requirePadding } from '../check-arguments.ts';
import { differentDims } from '../different-dims.ts';
import type { TensorHandle } from '../handle.ts';
import { ReductionMethods } from './reduction-methods.ts';

/** Methods that move elements to other places without changing them. */
export abstract class MovementMethods<T extends TensorHandle> extends ReductionMethods<T> {
  /** Changes the shape. One size may be -1. It then follows from the number of elements. */
  reshape(shape: Shape): T {
    return this.tensorOf(reshape(this.node, inferSize(this.shape, shape)));
  }
  /** Merges the dims from `startDim` to `endDim` into one. A scalar becomes a vector of one element. */
  flatten(startDim = 0, endDim = -1): T {
    if (this.ndim === 0) return this.reshape([1]);
    const start = normalizeDim('flatten', startDim, this.ndim);
    const end = normalizeDim('flatten', endDim, this.ndim);
    if (start > end) {
      throw new ShapeError(
        {
          asked: `flatten from dim ${startDim} to dim ${endDim} of shape ${formatShape(this.shape)}`,
          found: 'a start behind the end',
          todo: 'Name the outer dim first',
        },
        { startDim, endDim, shape: this.shape },
      );
    }
    const merged = elementCount(this.shape.slice(start, end + 1));
    return this.reshape([...this.shape.slice(0, start), merged, ...this.shape.slice(end + 1)]);
  }
  permute(order: readonly number[]): T {
    const dims = differentDims('permute', this.shape, order, this.ndim);
    return this.tensorOf(permute(this.node, dims));
  }
  transpose(dimA: number, dimB: number): T {
    const order = this.shape.map((_, dim) => dim);
    const a = normalizeDim('transpose', dimA, this.ndim);
    const b = normalizeDim('transpose', dimB, this.ndim);
    order[a] = b;
    order[b] = a;
    return this.tensorOf(permute(this.node, order));
  }
  expand(shape: Shape): T {
    return this.tensorOf(expandTo(this.node, shape));
  }
  unsqueeze(dim: number): T {
    const d = normalizeDim('unsqueeze', dim, this.ndim + 1);
    return this.reshape([...this.shape.slice(0, d), 1, ...this.shape.slice(d)]);
  }
  squeeze(dim: number): T {
    const d = normalizeDim('squeeze', dim, this.ndim);
    return this.shape[d] === 1
      ? this.reshape(this.shape.filter((_, i) => i !== d))
      : this.tensorOf(this.node);
  }
  /** The elements of a dim from `start` to `stop`, which is not included. Negative ends count from the end. */
  slice(dim: number, start: number, stop?: number, step = 1): T {
    const d = normalizeDim('slice', dim, this.ndim);
    const size = sizeAt(this.shape, d);
    const clampEnd = (end: number): number =>
      Math.min(size, Math.max(0, end < 0 ? end + size : end));
    const first = clampEnd(start);
    return this.tensorOf(
      sliceDim(this.node, d, first, Math.max(first, clampEnd(stop ?? size)), step),
    );
  }
  /** Takes one element of a dim. The dim disappears. */
  select(dim: number, index: number): T {
    const d = normalizeDim('select', dim, this.ndim);
    const size = sizeAt(this.shape, d);
    const i = requireElementAt(this.shape, dim, index, size);
    const kept = sliceDim(this.node, d, i, i + 1);
    return this.tensorOf(reshape(kept, this.shape.toSpliced(d, 1)));
  }
  /** torch.split: parts with `size` elements along a dim. The last part may be smaller. */
  split(size: number, dim = 0): T[] {
    requireIntegers('split', { size }, 1);
    const total = sizeAt(this.shape, normalizeDim('split', dim, this.ndim));
    return Array.from({ length: Math.max(1, Math.ceil(total / size)) }, (_, i) =>
      this.slice(dim, i * size, (i + 1) * size),
    );
  }
  /**
   * torch.chunk: at most `parts` parts of equal size. The last part may be smaller. An empty dim gives `parts` empty
   * parts.
   */
  chunk(parts: number, dim = 0): T[] {
    requireIntegers('chunk', { chunks: parts }, 1);
    const total = sizeAt(this.shape, normalizeDim('chunk', dim, this.ndim));
    // split would return a single part here.
    if (total === 0) return Array.from({ length: parts }, () => this.slice(dim, 0));
    return this.split(Math.ceil(total / parts), dim);
  }
  /** The slices along a dim, one for each of its elements. The dim disappears. */
  unbind(dim = 0): T[] {
    const size = sizeAt(this.shape, normalizeDim('unbind', dim, this.ndim));
    return Array.from({ length: size }, (_, i) => this.select(dim, i));
  }
  /** The same as transpose. */
  swapaxes(dimA: number, dimB: number): T {
    return this.transpose(dimA, dimB);
  }
  /** Moves dims to other places. The rest keep their order. */
  movedim(source: number | readonly number[], destination: number | readonly number[]): T {
    return this.tensorOf(permute(this.node, movedOrder(this.shape, source, destination)));
  }
  /**
   * The transpose of a matrix. A tensor with fewer dims stays as it is. Throws ShapeError for more dims, where PyTorch
   * reverses all dims.
   */
  get T(): T {
    if (this.ndim > 2) throw manyDims(this.shape);
    return this.tensorOf(permute(this.node, [...this.shape.keys()].reverse()));
  }
  /** The transposes of matrices. Shape: [.., R, C] -> [.., C, R]. */
  get mT(): T {
    return this.transpose(-2, -1);
  }
  /** Reverses the order of elements along these dims. */
  flip(dims: number | readonly number[]): T {
    return this.tensorOf(flip(this.node, listOf('flip', dims)));
  }
  /**
   * torch.roll: moves elements along dims. Elements that leave at one end come in at the other. Without dims, it works
   * on the flattened tensor.
   */
  roll(shifts: number | readonly number[], dims?: number | readonly number[]): T {
    const moves = listOf('roll', shifts);
    if (dims !== undefined) {
      return this.tensorOf(roll(this.node, moves, listOf('roll', dims)));
    }
    const row = reshape(this.node, [this.numel]);
    return this.tensorOf(reshape(roll(row, moves, [0]), this.shape));
  }
  /** Repeats the tensor along each dim. Shape: [A, B] by [r, s] -> [rA, sB]. */
  repeat(times: Shape): T {
    return this.tensorOf(repeat('repeat', this.node, times));
  }
  /** Does what repeat does, where missing counts in front are 1. */
  tile(times: Shape): T {
    return this.tensorOf(tile(this.node, times));
  }
  /**
   * Repeats each element `repeats` times in a row. Without a dim, it works on the flattened tensor.
   * Shape: [.., D, ..] -> [.., rD, ..].
   */
  repeatInterleave(repeats: number, dim?: number): T {
    return this.tensorOf(repeatInterleave(this.node, repeats, dim));
  }
  /**
   * Sets elements above a diagonal to 0. Diagonal 0, the default, is the main one, and higher numbers lie above it.
   * Shape: [.., R, C] -> [.., R, C].
   */
  tril(diagonal?: number): T {
    return this.tensorOf(triangle('tril', this.node, diagonal));
  }
  /**
   * Sets elements below a diagonal to 0. Diagonal 0, the default, is the main one, and higher numbers lie above it.
   * Shape: [.., R, C] -> [.., R, C].
   */
  triu(diagonal?: number): T {
    return this.tensorOf(triangle('triu', this.node, diagonal));
  }
  pad(before: readonly number[], after: readonly number[], value?: number): T {
    requirePadding(this.shape, { before, after });
    return this.tensorOf(pad(this.node, before, after, value));
  }
}

/** Replaces a size of -1 by the one that fits. Throws ShapeError if no size fits the number of elements. */
function inferSize(from: Shape, to: Shape): Shape {
  const unknown = to.indexOf(-1);
  if (unknown < 0) return to;
  const known = elementCount(to.filter((_, dim) => dim !== unknown));
  const size = elementCount(from) / known;
  if (!Number.isInteger(size) || to.lastIndexOf(-1) !== unknown) {
    throw new ShapeError(
      {
        asked: `reshape of shape ${formatShape(from)} to ${formatShape(to)}`,
        found: `${elementCount(from)} elements over ${known}`,
        todo: 'Use one -1, and sizes that divide the number of elements',
      },
      { from, to },
    );
  }
  return to.map((value, dim) => (dim === unknown ? size : value));
}

function manyDims(shape: Shape): ShapeError {
  return new ShapeError(
    {
      asked: `T of shape ${formatShape(shape)}`,
      found: `${shape.length} dims`,
      todo: 'Write mT for the last two dims, or permute()',
    },
    { shape },
  );
}
