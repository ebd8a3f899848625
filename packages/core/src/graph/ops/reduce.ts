import { computeDType, kindOf } from '../../base/dtype-kind.ts';
import { sizeAt } from '../../base/shape.ts';
import type { Shape, ValueType } from '../../spec/dtype.ts';
import type { ShapeError } from '../../spec/errors.ts';
import { createNode } from '../create-node.ts';
import { first, numbers, requireDType, shapeFault, unary, without } from '../infer-checks.ts';
import type { Node } from '../node.ts';
import { linear, noGradient, pointwise, type SimpleEntries } from '../op-entry.ts';
import { cast, div, equal, mul, neg, offset, scale } from './elementwise.ts';
import { expandReduced, permute, reshape, sum } from './movement.ts';

/** Ops that choose, order or add up elements along dims. `sum` is in movement.ts. */
export const reduceOps: SimpleEntries<'max' | 'argMax' | 'argSort' | 'cumsum'> = {
  max: {
    ...pointwise,
    dims: 'own',
    infer: ({ dims }, inputs) => {
      const { shape, dtype } = numbersOf('max', inputs);
      if (dims.some((dim) => shape[dim] === 0)) {
        throw noElement('max', inputs, 'to choose from along a reduced dim');
      }
      return { shape: without(shape, dims), dtype };
    },
    gradient: ({ params: { dims } }, gy, y, x) => {
      const chosen = cast(equal(x, expandReduced(y, dims, x)), x.dtype);
      const count = sum(chosen, dims);
      return [mul(chosen, expandReduced(div(gy, count), dims, x))];
    },
  },
  argMax: {
    ...pointwise,
    dims: 'own',
    infer: ({ dim }, inputs) => {
      const { shape } = numbersOf('argMax', inputs);
      if (sizeAt(shape, dim) === 0) throw noElement('argMax', inputs, `along dim ${dim}`);
      return { shape: without(shape, [dim]), dtype: 'i32' };
    },
    gradient: noGradient,
  },
  argSort: {
    ...pointwise,
    dims: 'own',
    infer: (_, inputs) => ({ shape: numbersOf('argSort', inputs).shape, dtype: 'i32' }),
    gradient: noGradient,
  },
  cumsum: {
    ...linear,
    autocast: 'f32',
    dims: 'own',
    infer: unary(numbers),
    gradient: ({ params }, gy) => [cumsum(gy, params.dim, !params.reverse)],
  },
};

function numbersOf(op: string, inputs: readonly ValueType[]): ValueType {
  const x = first(inputs);
  requireDType(op, x, numbers);
  return x;
}

function noElement(op: string, inputs: readonly ValueType[], where: string): ShapeError {
  const todo = 'Use a tensor with at least one element there';
  return shapeFault(op, inputs, `no element ${where}`, todo);
}

/** Shape: N -> N without dims. */
export function max(x: Node, dims: readonly number[]): Node {
  return dims.length === 0 ? x : createNode(reduceOps.max, 'max', { dims }, [x]);
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
  return createNode(reduceOps.argMax, 'argMax', { dim }, [x]);
}

/** Shape: N -> i32 N. */
export function argSort(x: Node, dim: number, descending = false): Node {
  return createNode(reduceOps.argSort, 'argSort', { dim, descending }, [x]);
}

/** The running sum along `dim`. It starts from the end if `reverse` is true. */
export function cumsum(x: Node, dim: number, reverse = false): Node {
  return createNode(reduceOps.cumsum, 'cumsum', { dim, reverse }, [x]);
}

/** Applies `build`, which works over the last dim, along another dim. Shape: N -> N. */
export function alongLast(x: Node, dim: number, build: (x: Node) => Node): Node {
  const last = x.shape.length - 1;
  if (dim === last) return build(x);
  const order = [...x.shape.keys()].with(dim, last).with(last, dim);
  return permute(build(permute(x, order)), order);
}
