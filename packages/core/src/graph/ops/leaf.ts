import type { DType, Shape } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import { requireSizes } from '../infer-checks.ts';
import type { Node } from '../node.ts';
import { movement, noGradient, pointwise, type SimpleEntries } from '../op-entry.ts';
import { requireElement } from '../require-element.ts';

/** Values that are not computed from others. */
export const leafOps: SimpleEntries<'constant' | 'iota' | 'random'> = {
  constant: {
    ...movement,
    memory: 'none',
    linearIn: [],
    dims: 'none',
    infer: (params) => {
      requireSizes('a tensor', params.shape);
      requireElement(params.dtype, params.value);
      return params;
    },
    gradient: noGradient,
  },
  iota: {
    ...pointwise,
    memory: 'none',
    dims: 'none',
    infer: ({ shape }) => {
      requireSizes('indices', shape);
      return { shape, dtype: 'i32' };
    },
    gradient: noGradient,
  },
  random: {
    ...pointwise,
    dims: 'own',
    infer: ({ shape }) => {
      requireSizes('random bits', shape);
      return { shape, dtype: 'i32' };
    },
    gradient: noGradient,
  },
};

/** Every element is `value`. If only a run knows the number of rows, it is that of `like`. Shape: -> shape. */
export function constant(
  value: number,
  shape: Shape,
  dtype: DType,
  like: Node | null = null,
): Node {
  return createNode(leafOps.constant, 'constant', { value, shape, dtype }, [], undefined, like);
}

/** A node whose elements are all `value`, with the shape and dtype of `like`. */
export function constantLike(like: Node, value: number): Node {
  return constant(value, like.shape, like.dtype, like);
}

/** Zeros with the shape and dtype of `like`. */
export function zerosLike(like: Node): Node {
  return constantLike(like, 0);
}

/** i32 indices along `dim`. */
export function iota(shape: Shape, dim: number): Node {
  return createNode(leafOps.iota, 'iota', { shape, dim }, []);
}

/** 32 random bits per element. Shape: key i32 [2] -> shape. */
export function random(key: Node, shape: Shape): Node {
  return createNode(leafOps.random, 'random', { shape }, [key]);
}
