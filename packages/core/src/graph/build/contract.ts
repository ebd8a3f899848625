import type { Shape } from '../../spec/dtype.ts';
import type { Conv2dParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import type { Node } from '../node.ts';

/** Batch dims broadcast. Shape: a [B, M, K], b [B', K, N] -> [B'', M, N], after the transposes. */
export function matmul(a: Node, b: Node, transposeA = false, transposeB = false): Node {
  return createNode('matmul', { transposeA, transposeB }, [a, b]);
}

/** Like matmul, but the result is the f32 sums, without rounding, also for operands of f16 and bf16. */
export function matmulSums(a: Node, b: Node, transposeA = false, transposeB = false): Node {
  return createNode('matmul', { transposeA, transposeB, sums: 'f32' }, [a, b]);
}

/** Shape: x [N, C, H, W], w [O, C/groups, R, S] -> [N, O, H', W']. */
export function conv2d(x: Node, weight: Node, params: Conv2dParams): Node {
  return createNode('conv2d', windowOf(params), [x, weight]);
}

/** Like conv2d, but the result is the f32 sums, without rounding, also for operands of f16 and bf16. */
export function conv2dSums(x: Node, weight: Node, params: Conv2dParams): Node {
  return createNode('conv2d', { ...windowOf(params), sums: 'f32' }, [x, weight]);
}

export function conv2dInput(dy: Node, weight: Node, params: Conv2dParams, inputShape: Shape): Node {
  return createNode('conv2dInput', { ...windowOf(params), inputShape }, [dy, weight]);
}

export function conv2dWeight(x: Node, dy: Node, params: Conv2dParams, weightShape: Shape): Node {
  return createNode('conv2dWeight', { ...windowOf(params), weightShape }, [x, dy]);
}

/** Copies the window's parameters, without other fields that the parameters of a node may have. */
function windowOf({ stride, padding, dilation, groups }: Conv2dParams): Conv2dParams {
  return { stride, padding, dilation, groups };
}
