import { elementCount, sizeAt } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import type { Conv2dParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import { first } from '../infer-checks.ts';
import { conv2dShape, matmulShape } from '../infer-contract.ts';
import type { Node } from '../node.ts';
import { product, type SimpleEntries } from '../op-entry.ts';
import { cast } from './elementwise.ts';
import { reshape, sumTo } from './movement.ts';

/**
 * Products. The gradients of a product of 16-bit operands are computed from 16-bit gradients, also if its result is f32
 * sums.
 */
export const contractOps: SimpleEntries<'matmul' | 'conv2d' | 'conv2dInput' | 'conv2dWeight'> = {
  matmul: {
    ...product,
    infer: matmulShape,
    gradient: ({ params: { transposeA, transposeB } }, owed, _, a, b) => {
      const gradient = cast(owed, a.dtype);
      const gradientA = transposeA
        ? matmul(b, gradient, transposeB, true)
        : matmul(gradient, b, false, !transposeB);
      return [sumTo(gradientA, a.shape), weightGradient(a, b, gradient, transposeA, transposeB)];
    },
  },
  conv2d: {
    ...product,
    infer: conv2dShape,
    gradient: ({ params }, owed, _, x, w) => {
      const gy = cast(owed, x.dtype);
      return [conv2dInput(gy, w, params, x.shape), conv2dWeight(x, gy, params, w.shape)];
    },
  },
  conv2dInput: {
    ...product,
    isExpensive: false,
    infer: ({ inputShape }, inputs) => ({ shape: inputShape, dtype: first(inputs).dtype }),
    gradient: ({ params }, g, _, dy, w) => [
      conv2d(g, w, params),
      conv2dWeight(g, dy, params, w.shape),
    ],
  },
  conv2dWeight: {
    ...product,
    isExpensive: false,
    infer: ({ weightShape }, inputs) => ({ shape: weightShape, dtype: first(inputs).dtype }),
    gradient: ({ params }, g, _, x, dy) => [
      conv2dInput(dy, g, params, x.shape),
      conv2d(x, g, params),
    ],
  },
};

function weightGradient(
  a: Node,
  b: Node,
  gradient: Node,
  transposeA: boolean,
  transposeB: boolean,
): Node {
  // If a batch shares the weight, one product over all rows replaces a product for each batch item and their sum.
  if (b.shape.length === 2 && a.shape.length > 2 && !transposeA) {
    const rows = (x: Node): Node => {
      const columns = sizeAt(x.shape, x.shape.length - 1);
      return reshape(x, [elementCount(x.shape.slice(0, -1)), columns]);
    };
    return transposeB
      ? matmul(rows(gradient), rows(a), true, false)
      : matmul(rows(a), rows(gradient), true, false);
  }
  const full = transposeB
    ? matmul(gradient, a, true, transposeA)
    : matmul(a, gradient, !transposeA, false);
  return sumTo(full, b.shape);
}

/** Batch dims broadcast. Shape: a [B, M, K], b [B', K, N] -> [B'', M, N], after the transposes. */
export function matmul(a: Node, b: Node, transposeA = false, transposeB = false): Node {
  return createNode(contractOps.matmul, 'matmul', { transposeA, transposeB }, [a, b]);
}

/** Like matmul, but the result is the f32 sums, without rounding, also for operands of f16 and bf16. */
export function matmulSums(a: Node, b: Node, transposeA = false, transposeB = false): Node {
  return createNode(contractOps.matmul, 'matmul', { transposeA, transposeB, sums: 'f32' }, [a, b]);
}

/** Shape: x [N, C, H, W], w [O, C/groups, R, S] -> [N, O, H', W']. */
export function conv2d(x: Node, weight: Node, params: Conv2dParams): Node {
  return createNode(contractOps.conv2d, 'conv2d', windowOf(params), [x, weight]);
}

/** Like conv2d, but the result is the f32 sums, without rounding, also for operands of f16 and bf16. */
export function conv2dSums(x: Node, weight: Node, params: Conv2dParams): Node {
  return createNode(contractOps.conv2d, 'conv2d', { ...windowOf(params), sums: 'f32' }, [
    x,
    weight,
  ]);
}

export function conv2dInput(dy: Node, weight: Node, params: Conv2dParams, inputShape: Shape): Node {
  return createNode(contractOps.conv2dInput, 'conv2dInput', { ...windowOf(params), inputShape }, [
    dy,
    weight,
  ]);
}

function conv2dWeight(x: Node, dy: Node, params: Conv2dParams, weightShape: Shape): Node {
  return createNode(
    contractOps.conv2dWeight,
    'conv2dWeight',
    { ...windowOf(params), weightShape },
    [x, dy],
  );
}

/** Copies the window's parameters, without other fields that the parameters of a node may have. */
function windowOf({ stride, padding, dilation, groups }: Conv2dParams): Conv2dParams {
  return { stride, padding, dilation, groups };
}
