import type { DType, Shape } from '../../spec/dtype.ts';
import { createNode, none, type Node } from '../node.ts';

/** Shape: -> shape. */
export function constant(value: number, shape: Shape, dtype: DType): Node {
  return createNode('constant', { value, shape, dtype }, []);
}

/** Every element of the result is `value`, in the shape and dtype of `like`. */
export function constantLike(like: Node, value: number): Node {
  return constant(value, like.shape, like.dtype);
}

/** i32 indices along `dim`. */
export function iota(shape: Shape, dim: number): Node {
  return createNode('iota', { shape, dim }, []);
}

/** 32 random bits an element. Shape: key i32 [2] -> shape. */
export function random(key: Node, shape: Shape): Node {
  return createNode('random', { shape }, [key]);
}

/** Uniform in [0, 1) with 24 bits. Shape: key i32 [2] -> shape. */
export function uniform(key: Node, shape: Shape): Node {
  const bits = createNode('cast', { dtype: 'f32' }, [random(key, shape)]);
  // The bits are a signed integer: scaled to [-0.5, 0.5), moved, and kept below 1 after rounding.
  const scaled = createNode('mul', none, [bits, constantLike(bits, 2 ** -32)]);
  const moved = createNode('add', none, [scaled, constantLike(bits, 0.5)]);
  return createNode('minimum', none, [moved, constantLike(bits, 1 - 2 ** -24)]);
}
