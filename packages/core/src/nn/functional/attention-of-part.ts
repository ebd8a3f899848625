import { createNode } from '../../graph/create-node.ts';
import { attention, attentionOps } from '../../graph/ops/attention.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import type { AttentionParams } from '../../spec/op.ts';
import { Tensor } from '../../tensor/tensor.ts';

/** Queries, some of the keys that they see, and the values of these. */
export interface PartOfKeys {
  /** Shape: [B, H, T, D]. */
  readonly q: Tensor;
  /** Shape: [B, G, S, D]. */
  readonly k: Tensor;
  /** Shape: [B, G, S, E]. */
  readonly v: Tensor;
  /** Which of these keys each query sees: from the first up to the second number. Shape: i32 [B|1, T, 2]. */
  readonly ranges: Tensor;
  /** Added to the scores. Shape: [B|1, 1, 1, S]. */
  readonly mask: Tensor | null;
  readonly params: Pick<AttentionParams, 'scale' | 'rounding'>;
}

/** What is needed to join attention to several parts of the keys. */
export interface AttentionOfPart {
  /** The attention to these keys alone. Shape: [B, H, T, E]. */
  readonly y: Tensor;
  /** Infinite for a query that sees none of these keys. Shape: f32 [B, H, T]. */
  readonly logSumExp: Tensor;
}

/** Attention to some of the keys. */
export function attentionOfPart(part: PartOfKeys): AttentionOfPart {
  const params = paramsOf(part);
  const [q, k, v, ...limits] = operandsOf(part);
  return {
    y: new Tensor(attention(params, [q, k, v, ...limits])),
    logSumExp: new Tensor(
      createNode(attentionOps.attentionLogSumExp, 'attentionLogSumExp', params, [q, k, ...limits]),
    ),
  };
}

/**
 * The gradients of attention to all keys by the queries, and by the keys and values of this part. `logSumExp` and
 * `delta`, the sum of y dy over E, are those of all keys. Shape: dy [B, H, T, E], logSumExp, delta f32 [B, H, T].
 */
export function attentionGradientsOfPart(
  part: PartOfKeys,
  { dy, logSumExp, delta }: Readonly<Record<'dy' | 'logSumExp' | 'delta', Tensor>>,
): Readonly<Record<'dq' | 'dk' | 'dv', Tensor>> {
  const params = { ...paramsOf(part), keysArePart: true };
  const [q, k, v, ...limits] = operandsOf(part);
  const inputs = [q, k, v, cast(dy.node, q.dtype), logSumExp.node, delta.node, ...limits];
  return {
    dq: new Tensor(
      createNode(attentionOps.attentionQueryGrad, 'attentionQueryGrad', params, inputs),
    ),
    dk: new Tensor(createNode(attentionOps.attentionKeyGrad, 'attentionKeyGrad', params, inputs)),
    dv: new Tensor(
      createNode(attentionOps.attentionValueGrad, 'attentionValueGrad', params, inputs),
    ),
  };
}

function paramsOf({ params: { scale, rounding } }: PartOfKeys): AttentionParams {
  return { causal: false, hasKeyRanges: true, scale, rounding };
}

function operandsOf({ q, k, v, mask, ranges }: PartOfKeys) {
  const limits = mask === null ? [ranges.node] : [mask.node, ranges.node];
  return [q.node, k.node, v.node, ...limits] as const;
}
