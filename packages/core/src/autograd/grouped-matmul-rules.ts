import { groupedMatmul, groupedMatmulWeight } from '../graph/build/grouped.ts';
import type { Node } from '../graph/node.ts';
import type { GradientRule } from './gradient-rule.ts';

function inputsOf(node: Node): readonly [a: Node, b: Node, counts: Node] {
  const [a, b, counts] = node.inputs;
  if (a === undefined || b === undefined || counts === undefined) {
    throw new RangeError(`${node.op} of ${node.inputs.length} inputs`);
  }
  return [a, b, counts];
}

export const groupedMatmulGradient: GradientRule<'groupedMatmul'> = (node, gradient) => {
  const [x, w, counts] = inputsOf(node);
  const { transposeB } = node.params;
  const [a, b] = transposeB ? [gradient, x] : [x, gradient];
  return [groupedMatmul(gradient, w, counts, !transposeB), groupedMatmulWeight(a, b, counts), null];
};

export const groupedMatmulWeightGradient: GradientRule<'groupedMatmulWeight'> = (
  node,
  gradient,
) => {
  const [a, b, counts] = inputsOf(node);
  return [groupedMatmul(b, gradient, counts, true), groupedMatmul(a, gradient, counts), null];
};
