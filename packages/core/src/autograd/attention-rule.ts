import { computeDType } from '../base/dtype-kind.ts';
import { cast, mul } from '../graph/build/elementwise.ts';
import { sum } from '../graph/build/reduce.ts';
import { createNode } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';

/**
 * The gradients of attention, which compute the weights again from the log-sum-exp of each query. Null if the mask
 * requires a gradient, because that gradient is as large as the scores.
 */
export function attentionGradient(
  { params, inputs }: Node<'attention'>,
  gradient: Node,
  output: Node,
): readonly (Node | null)[] | null {
  const [q, k, v, ...masks] = inputs;
  if (q === undefined || k === undefined || v === undefined) {
    throw new RangeError(`attention of ${inputs.length} inputs`);
  }
  if (masks.some(({ requiresGrad }) => requiresGrad)) return null;
  const wide = (x: Node): Node => cast(x, computeDType(x.dtype));
  const logSumExp = createNode('attentionLogSumExp', params, [q, k, ...masks]);
  const delta = sum(mul(wide(gradient), wide(output)), [3]);
  const operands = [q, k, v, gradient, logSumExp, delta, ...masks];
  return [
    createNode('attentionQueryGrad', params, operands),
    createNode('attentionKeyGrad', params, operands),
    createNode('attentionValueGrad', params, operands),
    ...masks.map(() => null),
  ];
}
