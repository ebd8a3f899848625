import { normalizeGrad } from '../lanes/norm.ts';
import {
  byRows,
  type NormGradient,
  type RowKernel,
  sumHalvesKey,
  sumManyRowsKey,
  sumRowsKey,
} from '../emit/wasm/rows/row-kernel.ts';
import { type KernelGraph, type KernelNode, type RowNode, widened } from './kernel-graph.ts';

/** The nodes of the gradients in the backward pass of one norm. */
export interface NormGradients {
  readonly input: RowNode;
  readonly weight: RowNode | undefined;
  readonly bias: RowNode | undefined;
}

/**
 * Finds the gradients of each norm: of its input, of its weight, and of its bias, which is a sum over the rows of dy.
 */
export function normGradients(graph: KernelGraph, nodes: Iterable<number>): NormGradients[] {
  const rows = [...nodes].map((id) => graph.node(id)).filter(isRow);
  return rows.flatMap((input) => {
    const { gradient } = input.kernel;
    if (gradient?.of !== 'input') return [];
    const [x, , dy] = input.inputs.map(({ node }) => node);
    const weight = rows.find(
      (node) =>
        isSameNorm(node.kernel.gradient, gradient) && reads(node, 0, x) && reads(node, 1, dy),
    );
    const halves = dy === undefined ? undefined : widened(graph.node(dy))?.node;
    const bias = rows.find(
      (node) =>
        isSumOfRows(node.kernel, input.kernel) && (reads(node, 0, dy) || reads(node, 0, halves)),
    );
    return { input, weight, bias };
  });
}

/** Returns the kernel that computes all of these gradients in the pass that computes dx. */
export function normGradientsKernel({ input, weight, bias }: NormGradients): RowKernel {
  const { kernel, inputs } = input;
  const { gradient } = kernel;
  if (gradient === undefined) throw new RangeError('a row kernel that is no gradient of a norm');
  const { norm, eps } = gradient;
  const residual = inputs.length === 4;
  const parts = { residual, weight: weight !== undefined, bias: bias !== undefined };
  return {
    key: `${norm} grads ${eps} ${residual} ${parts.weight} ${parts.bias}`,
    sizes: kernel.sizes,
    ...byRows(normalizeGrad(norm, eps, parts)),
  };
}

function isRow(node: KernelNode): node is RowNode {
  return node.kind === 'row';
}

function reads(node: RowNode, index: number, input: number | undefined): boolean {
  return input !== undefined && node.inputs[index]?.node === input;
}

function isSameNorm(weight: NormGradient | undefined, input: NormGradient): boolean {
  return weight?.of === 'weight' && weight.norm === input.norm && weight.eps === input.eps;
}

/** Whether a kernel sums all rows of the matrix that the other kernel walks over. */
function isSumOfRows({ key, sizes }: RowKernel, { sizes: [rows, columns] }: RowKernel): boolean {
  const [summed, inner, outer] = key === sumManyRowsKey ? [sizes[1], sizes[2], sizes[0]] : sizes;
  const isSum = key === sumRowsKey || key === sumManyRowsKey || key === sumHalvesKey;
  return isSum && summed === rows && inner === columns && outer === 1;
}
