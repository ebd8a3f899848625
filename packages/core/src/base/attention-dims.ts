import type { Shape } from '../spec/dtype.ts';
import type { AttentionParams } from '../spec/op.ts';

/** Attention, and the ops of its gradients. */
export type AttentionOp =
  | 'attention'
  | 'attentionLogSumExp'
  | 'attentionQueryGrad'
  | 'attentionKeyGrad'
  | 'attentionValueGrad';

/** The mask and the ranges of keys among the inputs of an op. They come last. Undefined: it has none. */
export function attentionLimits<T>(
  op: AttentionOp,
  { hasKeyRanges }: Pick<AttentionParams, 'hasKeyRanges'>,
  inputs: readonly T[],
): { readonly mask: T | undefined; readonly ranges: T | undefined } {
  const limits = inputs.slice(op === 'attention' ? 3 : op === 'attentionLogSumExp' ? 2 : 6);
  const ranges = hasKeyRanges ? limits.pop() : undefined;
  return { mask: limits[0], ranges };
}

/** The sizes of attention. */
export interface AttentionDims {
  readonly batch: number;
  readonly heads: number;
  /** The number of items of keys and values. It is 1 if all items of the batch share them. */
  readonly keyBatch: number;
  /** The number of heads of keys and values. */
  readonly groups: number;
  readonly queries: number;
  readonly keys: number;
  readonly width: number;
  /** The width of a value. It is 0 if the op reads no values. */
  readonly valueWidth: number;
}

/**
 * The sizes of attention, from the shapes of its inputs.
 * Shape: q [batch, heads, queries, width], k [keyBatch, groups, keys, width], v [keyBatch, groups, keys,
 * valueWidth].
 */
export function attentionDims(q: Shape, k: Shape, v: Shape | undefined): AttentionDims {
  const [batch = 0, heads = 0, queries = 0, width = 0] = q;
  const [keyBatch = 0, groups = 0, keys = 0] = k;
  return { batch, heads, keyBatch, groups, queries, keys, width, valueWidth: v?.[3] ?? 0 };
}
