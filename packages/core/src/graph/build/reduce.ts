import { sizeAt } from '../../shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { createNode, type Node } from '../node.ts';
import { neg, scale } from './elementwise.ts';
import { reshape } from './movement.ts';

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
  return neg(max(neg(x), dims));
}

/** Shape: N -> N without dims. An empty mean is NaN, as in PyTorch. */
export function mean(x: Node, dims: readonly number[]): Node {
  let count = 1;
  for (const dim of dims) count *= sizeAt(x.shape, dim);
  return scale(sum(x, dims), count === 0 ? Number.NaN : 1 / count);
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

export function cumsum(x: Node, dim: number): Node {
  return createNode('cumsum', { dim }, [x]);
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
