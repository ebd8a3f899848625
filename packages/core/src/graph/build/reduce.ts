import { sizeAt } from '../../base/shape.ts';
import { computeDType, kindOf } from '../../base/dtype-kind.ts';
import type { Shape } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import type { Node } from '../node.ts';
import { cast, div, neg, offset, scale } from './elementwise.ts';
import { permute, reshape } from './movement.ts';

/** Shape: N -> N without dims. */
export function sum(x: Node, dims: readonly number[]): Node {
  return dims.length === 0 ? x : createNode('sum', { dims }, [x]);
}

/** Shape: N -> N without dims. */
export function max(x: Node, dims: readonly number[]): Node {
  return dims.length === 0 ? x : createNode('max', { dims }, [x]);
}

/** Shape: N -> N without dims. */
export function min(x: Node, dims: readonly number[]): Node {
  return mirrored(max(mirrored(x), dims));
}

/**
 * Reverses the order of values, and undoes itself. An integer x is mapped to -1 - x, because -x does not exist for
 * every integer. Shape: N -> N.
 */
export function mirrored(x: Node): Node {
  return kindOf(x.dtype) === 'float' ? neg(x) : offset(neg(x), -1);
}

/** Adds in f32 if x has fewer bits. The mean of no elements is NaN, as in PyTorch. Shape: N -> N without dims. */
export function mean(x: Node, dims: readonly number[]): Node {
  let count = 1;
  for (const dim of dims) {
    if (dim > 0 || x.rowCount === null) count *= sizeAt(x.shape, dim);
  }
  const total = sum(cast(x, computeDType(x.dtype)), dims);
  if (x.rowCount !== null && dims.includes(0)) {
    const elements = scale(cast(x.rowCount.count, total.dtype), count);
    return cast(div(total, elements), x.dtype);
  }
  return cast(scale(total, count === 0 ? Number.NaN : 1 / count), x.dtype);
}

/** Shape: N -> N with dims of size 1. */
export function keepDims(reduced: Node, original: Shape, dims: readonly number[]): Node {
  return reshape(
    reduced,
    original.map((size, dim) => (dims.includes(dim) ? 1 : size)),
  );
}

export function argMax(x: Node, dim: number): Node {
  return createNode('argMax', { dim }, [x]);
}

/** Shape: N -> i32 N. */
export function argSort(x: Node, dim: number, descending = false): Node {
  return createNode('argSort', { dim, descending }, [x]);
}

/** The running sum along `dim`. It starts from the end if `reverse` is true. */
export function cumsum(x: Node, dim: number, reverse = false): Node {
  return createNode('cumsum', { dim, reverse }, [x]);
}

/** Applies `build`, which works over the last dim, along another dim. Shape: N -> N. */
export function alongLast(x: Node, dim: number, build: (x: Node) => Node): Node {
  const last = x.shape.length - 1;
  if (dim === last) return build(x);
  const order = [...x.shape.keys()].with(dim, last).with(last, dim);
  return permute(build(permute(x, order)), order);
}

/** All dims of x. */
export function allDims(x: Node): number[] {
  return x.shape.map((_, dim) => dim);
}

/** Sums away the dims that broadcasting `shape` to x's shape added or repeated. */
export function sumTo(x: Node, shape: Shape): Node {
  const missing = x.shape.length - shape.length;
  const dims = allDims(x).filter(
    (dim) => dim < missing || (shape[dim - missing] === 1 && x.shape[dim] !== 1),
  );
  return reshape(sum(x, dims), shape);
}
