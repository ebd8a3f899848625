import { computeDType } from '../../base/dtype-kind.ts';
import type { AttentionParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import {
  attentionGradShape,
  attentionLogSumExpShape,
  attentionShape,
  pagedAttentionShape,
} from '../infer-attention.ts';
import type { Node } from '../node.ts';
import { type CompositeEntries, composite } from '../op-entry.ts';
import {
  attentionKeyGradParts,
  attentionLogSumExpParts,
  attentionParts,
  attentionQueryGradParts,
  attentionValueGradParts,
} from './attention-parts.ts';
import { cast, mul } from './elementwise.ts';
import { indexSelect } from './index-ops.ts';
import { permute, reshape, sum } from './movement.ts';

/** Autocast does not change the inputs. The caller says how operands are rounded, and masks keep their precision. */
const facts = { ...composite, isExpensive: true, dims: 'own' } as const;
const gradientFacts = {
  ...facts,
  linearIn: [[3, 5]],
  gradient: 'throughDecomposition',
} as const;

/** Attention, and the parts of its gradient. */
export const attentionOps: CompositeEntries<
  | 'attention'
  | 'attentionLogSumExp'
  | 'attentionQueryGrad'
  | 'attentionKeyGrad'
  | 'attentionValueGrad'
  | 'pagedAttention'
> = {
  attention: {
    ...facts,
    linearIn: [[2]],
    infer: attentionShape,
    decompose: (params, ...inputs) => attentionParts(params, inputs),
    // The gradient of a mask is as large as the scores.
    gradient: ({ params }, gy, y, q, k, v, ...masks) =>
      masks.some(({ requiresGrad }) => requiresGrad)
        ? null
        : gradientsFromRows(params, gy, y, [q, k, v], masks),
  },
  attentionLogSumExp: {
    ...facts,
    infer: attentionLogSumExpShape,
    decompose: (params, ...inputs) => attentionLogSumExpParts(params, inputs),
    gradient: 'throughDecomposition',
  },
  attentionQueryGrad: {
    ...gradientFacts,
    infer: attentionGradShape(0),
    decompose: (params, ...inputs) => attentionQueryGradParts(params, inputs),
  },
  attentionKeyGrad: {
    ...gradientFacts,
    infer: attentionGradShape(1),
    decompose: (params, ...inputs) => attentionKeyGradParts(params, inputs),
  },
  attentionValueGrad: {
    ...gradientFacts,
    infer: attentionGradShape(2),
    decompose: (params, ...inputs) => attentionValueGradParts(params, inputs),
  },
  pagedAttention: {
    ...facts,
    dims: 'none',
    linearIn: [[2]],
    infer: pagedAttentionShape,
    decompose: (params, q, k, v, table, ranges) =>
      attention({ ...params, causal: false, hasKeyRanges: true }, [
        q,
        throughTable(k, table),
        throughTable(v, table),
        ranges,
      ]),
    gradient: 'throughDecomposition',
  },
};

/**
 * Copies the blocks of each item behind each other. What is below a cast is copied, so that the other blocks are not cast.
 * Shape: kept [N, P, G, D], table [B, M] -> [B, G, M * P, D].
 */
function throughTable(kept: Node, table: Node): Node {
  if (kept.op === 'cast') return cast(throughTable(kept.inputs[0] ?? kept, table), kept.dtype);
  const [batch = 0, blocks = 0] = table.shape;
  const [, size = 0, groups = 0, width = 0] = kept.shape;
  const gathered = indexSelect(kept, 0, reshape(table, [batch * blocks]), null);
  return permute(reshape(gathered, [batch, blocks * size, groups, width]), [0, 2, 1, 3]);
}

/** The gradients of attention, which compute the weights again from the log-sum-exp of each query. */
function gradientsFromRows(
  params: AttentionParams,
  gradient: Node,
  output: Node,
  operands: readonly [q: Node, k: Node, v: Node],
  masks: readonly Node[],
): readonly (Node | null)[] {
  const [q, k] = operands;
  const wide = (x: Node): Node => cast(x, computeDType(x.dtype));
  const logSumExp = createNode(attentionOps.attentionLogSumExp, 'attentionLogSumExp', params, [
    q,
    k,
    ...masks,
  ]);
  const delta = sum(mul(wide(gradient), wide(output)), [3]);
  const inputs = [...operands, gradient, logSumExp, delta, ...masks];
  return [
    createNode(attentionOps.attentionQueryGrad, 'attentionQueryGrad', params, inputs),
    createNode(attentionOps.attentionKeyGrad, 'attentionKeyGrad', params, inputs),
    createNode(attentionOps.attentionValueGrad, 'attentionValueGrad', params, inputs),
    ...masks.map(() => null),
  ];
}

/** The weights times v. The inputs are q, k and v, and then a mask and ranges of keys, if there are any. */
export function attention(params: AttentionParams, inputs: readonly Node[]): Node {
  return createNode(attentionOps.attention, 'attention', params, inputs);
}
