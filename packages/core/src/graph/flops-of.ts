import { type Node, isOp } from './node.ts';
import { elementCount, sizeAt } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';

/**
 * The floating-point operations of a node, with two for each product of two elements. They are counted in matmul (2 M N
 * K for each batch), conv2d (2 R S C/groups for each element of the output), transposed convolution (the same for each
 * element of the input), grouped products (as for all rows), attention (2 T S (D + E) for each head), and in their
 * gradients. A convolution whose weight is one constant is a pool, and does not count. As in PyTorch's FlopCounterMode,
 * nothing else counts, because it is of a lower order and bound by memory.
 */
export function flopsOf(node: Node): number {
  const perElement = 2 * elementCount(node.shape);
  if (isOp(node, 'matmul')) {
    const [a] = node.inputs;
    if (a === undefined) return 0;
    return perElement * sizeAt(a.shape, a.shape.length - (node.params.transposeA ? 2 : 1));
  }
  const [input, weight] = node.inputs;
  if (isOp(node, 'groupedMatmul') || isOp(node, 'blockedLinear'))
    return perElement * sizeAt(input?.shape ?? [], 1);
  if (isOp(node, 'groupedMatmulWeight')) {
    return 2 * elementCount(input?.shape ?? []) * sizeAt(node.shape, 2);
  }
  const attended = attentionFlops(node);
  if (attended !== undefined) return attended;
  if (input === undefined || weight === undefined) return 0;
  if (isPool(node)) return 0;
  const perWindow = elementCount(weight.shape.slice(1));
  if (node.op === 'conv2d') return perElement * perWindow;
  if (node.op === 'conv2dInput') return 2 * elementCount(input.shape) * perWindow;
  // The inputs are x and the gradient of the output.
  if (node.op === 'conv2dWeight') {
    return 2 * elementCount(weight.shape) * elementCount(node.shape.slice(1));
  }
  return 0;
}

/** Whether a node computes the means of windows, or their gradient, as a convolution whose weight is one constant. */
export function isPool({ op, inputs }: Node): boolean {
  return (op === 'conv2d' || op === 'conv2dInput') && inputs[1]?.op === 'constant';
}

/** Counts products for all keys, even if a mask hides some, as in PyTorch. Undefined for other ops. */
function attentionFlops(node: Node): number | undefined {
  const [q, k, v, table] = node.inputs;
  const products = (shape: Shape = []): number =>
    2 * elementCount(q?.shape.slice(0, 3) ?? []) * elementCount(shape.slice(-2));
  if (node.op === 'attention' || node.op === 'attentionQueryGrad') {
    return products(k?.shape) + products(v?.shape);
  }
  if (node.op === 'pagedAttention') {
    const [, heads = 0, queries = 0] = q?.shape ?? [];
    const [, size = 0] = k?.shape ?? [];
    const pairs = heads * queries * size * elementCount(table?.shape ?? []);
    return 2 * pairs * ((k?.shape[3] ?? 0) + (v?.shape[3] ?? 0));
  }
  if (node.op === 'attentionKeyGrad') return products(k?.shape);
  if (node.op === 'attentionValueGrad') return products(v?.shape);
  return undefined;
}
