/**
 * How many of the first inputs of each step of attention have heads: queries, keys, values, and gradients of the
 * result.
 */
export const headInputs = {
  attention: 3,
  attentionLogSumExp: 2,
  attentionQueryGrad: 4,
  attentionKeyGrad: 4,
  attentionValueGrad: 4,
} as const;
