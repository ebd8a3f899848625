import { sameShape } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import type { Node } from '../node.ts';

export function reshape(x: Node, shape: Shape): Node {
  return sameShape(x.shape, shape) ? x : createNode('reshape', { shape }, [x]);
}

export function permute(x: Node, order: readonly number[]): Node {
  return createNode('permute', { order }, [x]);
}

/**
 * Broadcasts x: adds leading dims, then repeats dims of size 1. If only a run knows the number of rows, it is that of
 * `like`.
 */
export function expandTo(x: Node, shape: Shape, like: Node | null = null): Node {
  if (sameShape(x.shape, shape)) return x;
  const missing = shape.length - x.shape.length;
  const aligned =
    missing > 0 ? reshape(x, [...Array.from({ length: missing }, () => 1), ...x.shape]) : x;
  return sameShape(aligned.shape, shape)
    ? aligned
    : createNode('expand', { shape }, [aligned], undefined, like);
}

/** Takes every step-th element of one dim, from start to before stop. */
export function sliceDim(x: Node, dim: number, start: number, stop: number, step = 1): Node {
  return createNode(
    'slice',
    {
      starts: x.shape.map((_, d) => (d === dim ? start : 0)),
      stops: x.shape.map((size, d) => (d === dim ? stop : size)),
      steps: x.shape.map((_, d) => (d === dim ? step : 1)),
    },
    [x],
  );
}

export function pad(x: Node, before: readonly number[], after: readonly number[], value = 0): Node {
  if (before.every((n) => n === 0) && after.every((n) => n === 0)) return x;
  return createNode('pad', { before, after, value }, [x]);
}

export function concat(inputs: readonly Node[], dim: number): Node {
  const [only] = inputs;
  return inputs.length === 1 && only !== undefined ? only : createNode('concat', { dim }, inputs);
}

/** Adds a dim of size 1. Shape: [A, B] with dim 1 -> [A, 1, B]. */
export function unsqueeze(x: Node, dim: number): Node {
  return reshape(x, [...x.shape.slice(0, dim), 1, ...x.shape.slice(dim)]);
}

/** Repeats a value along the dims that a reduction removed. Shape: shape of like without dims -> shape of like. */
export function expandReduced(x: Node, dims: readonly number[], like: Node): Node {
  const { shape } = like;
  return expandTo(
    reshape(
      x,
      shape.map((size, dim) => (dims.includes(dim) ? 1 : size)),
    ),
    shape,
    like,
  );
}

/** The inverse of a permutation. */
export function inverseOrder(order: readonly number[]): number[] {
  const inverse = Array.from({ length: order.length }, () => 0);
  order.forEach((dim, position) => {
    inverse[dim] = position;
  });
  return inverse;
}
