import type { Shape } from '../../spec/dtype.ts';
import type { Conv2dParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import type { Node } from '../node.ts';

/** Batch dims broadcast. Shape: a [B, M, K], b [B', K, N] -> [B'', M, N], after the transposes. */
export function matmul(a: Node, b: Node, transposeA = false, transposeB = false): Node {
  return createNode('matmul', { transposeA, transposeB }, [a, b]);
}

/** Shape: x [N, C, H, W], w [O, C/groups, R, S] -> [N, O, H', W']. */
export function conv2d(x: Node, weight: Node, params: Conv2dParams): Node {
  return createNode('conv2d', params, [x, weight]);
}

export function conv2dInput(dy: Node, weight: Node, params: Conv2dParams, inputShape: Shape): Node {
  return createNode('conv2dInput', { ...params, inputShape }, [dy, weight]);
}

export function conv2dWeight(x: Node, dy: Node, params: Conv2dParams, weightShape: Shape): Node {
  return createNode('conv2dWeight', { ...params, weightShape }, [x, dy]);
}
