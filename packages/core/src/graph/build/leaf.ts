import type { DType, Shape } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import type { Node } from '../node.ts';

/** Every element is `value`. If only a run knows the number of rows, it is that of `like`. Shape: -> shape. */
export function constant(
  value: number,
  shape: Shape,
  dtype: DType,
  like: Node | null = null,
): Node {
  return createNode('constant', { value, shape, dtype }, [], undefined, like);
}

/** A node whose elements are all `value`, with the shape and dtype of `like`. */
export function constantLike(like: Node, value: number): Node {
  return constant(value, like.shape, like.dtype, like);
}

/** i32 indices along `dim`. */
export function iota(shape: Shape, dim: number): Node {
  return createNode('iota', { shape, dim }, []);
}

/** 32 random bits per element. Shape: key i32 [2] -> shape. */
export function random(key: Node, shape: Shape): Node {
  return createNode('random', { shape }, [key]);
}
