import { elementCount, formatShape, sameShape, sizeAt } from '../../base/shape.ts';
import type { Shape, ValueType } from '../../spec/dtype.ts';
import type { OpParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import {
  first,
  numbers,
  requireDType,
  requireSameDType,
  requireSizes,
  shapeFault,
  without,
  withSize,
} from '../infer-checks.ts';
import type { Node } from '../node.ts';
import { linear, movement, type SimpleEntries } from '../op-entry.ts';
import { requireElement } from '../require-element.ts';
import { hasUnknownRows, unknownFault } from '../row-counts.ts';

/** Ops that move elements without changing them, and `sum`, which is the gradient of `expand`. */
export const movementOps: SimpleEntries<
  'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat' | 'sum'
> = {
  reshape: {
    ...movement,
    memory: 'input',
    infer: (params, inputs) => {
      const x = first(inputs);
      requireSizes('reshape', params.shape);
      if (hasUnknownRows(params.shape) && hasUnknownRows(x.shape)) {
        if (elementCount(params.shape.slice(1)) === elementCount(x.shape.slice(1))) {
          return { shape: params.shape, dtype: x.dtype };
        }
      }
      if (elementCount(params.shape) !== elementCount(x.shape)) {
        throw shapeFault(
          'reshape',
          inputs,
          `${elementCount(x.shape)} elements for the shape ${formatShape(params.shape)} of ${elementCount(params.shape)}`,
          'Use a shape with as many elements',
        );
      }
      return { shape: params.shape, dtype: x.dtype };
    },
    gradient: (_, gy, _y, x) => [reshape(gy, x.shape)],
  },
  permute: {
    ...movement,
    infer: (params, inputs) => {
      const { shape, dtype } = first(inputs);
      return { shape: params.order.map((dim) => sizeAt(shape, dim)), dtype };
    },
    gradient: ({ params }, gy) => [permute(gy, inverseOrder(params.order))],
  },
  expand: {
    ...movement,
    memory: 'input',
    infer: (params, inputs) => {
      const x = first(inputs);
      requireSizes('expand', params.shape);
      const fits =
        x.shape.length === params.shape.length &&
        x.shape.every((size, dim) => size === 1 || Object.is(size, params.shape[dim]));
      if (!fits) {
        throw shapeFault(
          'expand',
          inputs,
          `the target shape ${formatShape(params.shape)}`,
          'Only dims of size 1 expand',
        );
      }
      return { shape: params.shape, dtype: x.dtype };
    },
    gradient: (_, gy, _y, x) => [sumTo(gy, x.shape)],
  },
  slice: {
    ...movement,
    infer: (params, inputs) => {
      const x = first(inputs);
      const shape = x.shape.map((size, dim) => {
        const [start, stop, step] = [
          sizeAt(params.starts, dim),
          sizeAt(params.stops, dim),
          sizeAt(params.steps, dim),
        ];
        if (Number.isNaN(size) && start === 0 && Number.isNaN(stop) && step === 1) return size;
        if (
          Number.isNaN(size) ||
          ![start, stop, step].every(Number.isInteger) ||
          start < 0 ||
          stop > size ||
          start > stop ||
          step < 1
        ) {
          throw shapeFault(
            'slice',
            inputs,
            `elements ${start} to ${stop} by ${step} along dim ${dim} of size ${size}`,
            'Stay within the dim',
          );
        }
        return Math.ceil((stop - start) / step);
      });
      return { shape, dtype: x.dtype };
    },
    gradient: (node, gy, _, x) => [sliceGradient(node, gy, x)],
  },
  pad: {
    ...movement,
    infer: (params, inputs) => {
      const x = first(inputs);
      const widths = [...params.before, ...params.after];
      requireSizes('padding', widths);
      if (widths.length !== 2 * x.shape.length) {
        throw shapeFault(
          'pad',
          inputs,
          `padding of ${params.before.length} and ${params.after.length} dims`,
          'Give each dim a number before and one after',
        );
      }
      requireElement(x.dtype, params.value);
      if (hasUnknownRows(x.shape) && (params.before[0] !== 0 || params.after[0] !== 0)) {
        throw unknownFault('pad', inputs, 'rows would come to stand before or behind them');
      }
      return {
        shape: x.shape.map(
          (size, dim) => sizeAt(params.before, dim) + size + sizeAt(params.after, dim),
        ),
        dtype: x.dtype,
      };
    },
    gradient: ({ params: { before } }, gy, _, { shape }) => {
      const stops = shape.map((size, dim) => sizeAt(before, dim) + size);
      return [
        createNode(
          movementOps.slice,
          'slice',
          { starts: before, stops, steps: shape.map(() => 1) },
          [gy],
        ),
      ];
    },
  },
  concat: {
    ...movement,
    infer: concatShape,
    gradient: concatGradient,
  },
  sum: {
    ...linear,
    autocast: 'f32',
    dims: 'own',
    infer: ({ dims }, inputs) => {
      const { shape, dtype } = first(inputs);
      requireDType('sum', first(inputs), numbers);
      return { shape: without(shape, dims), dtype };
    },
    gradient: ({ params }, gy, _, x) => [expandReduced(gy, params.dims, x)],
  },
};

function concatShape(params: OpParams['concat'], inputs: readonly ValueType[]): ValueType {
  const x = first(inputs);
  if (params.dim === 0 && inputs.some(({ shape }) => hasUnknownRows(shape))) {
    throw unknownFault('concat', inputs, 'rows would come to stand behind them');
  }
  let size = 0;
  for (const input of inputs) {
    requireSameDType('concat', [x, input]);
    if (!sameShape(withSize(input.shape, params.dim, 0), withSize(x.shape, params.dim, 0))) {
      throw shapeFault(
        'concat',
        inputs,
        `inputs that differ outside dim ${params.dim}`,
        'Use equal sizes in all other dims',
      );
    }
    size += sizeAt(input.shape, params.dim);
  }
  return { shape: withSize(x.shape, params.dim, size), dtype: x.dtype };
}

/** Puts zeros at the elements that the slice did not take. */
function sliceGradient(node: Node<'slice'>, gradient: Node, { shape }: Node): Node {
  const { starts, steps } = node.params;
  const spread = spreadSteps(gradient, steps, shape);
  const before = shape.map((_, dim) => sizeAt(starts, dim));
  const after = shape.map((size, dim) => size - sizeAt(before, dim) - sizeAt(spread.shape, dim));
  return pad(spread, before, after);
}

/** Moves element i of a dim to i * step, with zeros between the elements. */
function spreadSteps(x: Node, steps: readonly number[], limit: Shape): Node {
  let spread = x;
  steps.forEach((step, dim) => {
    const size = sizeAt(spread.shape, dim);
    if (step === 1 || size === 0) return;
    const split = reshape(spread, [
      ...spread.shape.slice(0, dim + 1),
      1,
      ...spread.shape.slice(dim + 1),
    ]);
    const after = split.shape.map((_, d) => (d === dim + 1 ? step - 1 : 0));
    const padded = pad(
      split,
      after.map(() => 0),
      after,
    );
    const merged = reshape(padded, [
      ...spread.shape.slice(0, dim),
      size * step,
      ...spread.shape.slice(dim + 1),
    ]);
    const keep = Math.min((size - 1) * step + 1, sizeAt(limit, dim));
    spread = sliceDim(merged, dim, 0, keep);
  });
  return spread;
}

function concatGradient(node: Node<'concat'>, gradient: Node): Node[] {
  const { dim } = node.params;
  let start = 0;
  return node.inputs.map((input) => {
    const stop = start + sizeAt(input.shape, dim);
    const part = sliceDim(gradient, dim, start, stop);
    start = stop;
    return part;
  });
}

export function reshape(x: Node, shape: Shape): Node {
  return sameShape(x.shape, shape) ? x : createNode(movementOps.reshape, 'reshape', { shape }, [x]);
}

export function permute(x: Node, order: readonly number[]): Node {
  return createNode(movementOps.permute, 'permute', { order }, [x]);
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
    : createNode(movementOps.expand, 'expand', { shape }, [aligned], undefined, like);
}

/** Takes every step-th element of one dim, from start to before stop. */
export function sliceDim(x: Node, dim: number, start: number, stop: number, step = 1): Node {
  return createNode(
    movementOps.slice,
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
  return createNode(movementOps.pad, 'pad', { before, after, value }, [x]);
}

export function concat(inputs: readonly Node[], dim: number): Node {
  const [only] = inputs;
  return inputs.length === 1 && only !== undefined
    ? only
    : createNode(movementOps.concat, 'concat', { dim }, inputs);
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
function inverseOrder(order: readonly number[]): number[] {
  const inverse = Array.from({ length: order.length }, () => 0);
  order.forEach((dim, position) => {
    inverse[dim] = position;
  });
  return inverse;
}

/** Shape: N -> N without dims. */
export function sum(x: Node, dims: readonly number[]): Node {
  return dims.length === 0 ? x : createNode(movementOps.sum, 'sum', { dims }, [x]);
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
