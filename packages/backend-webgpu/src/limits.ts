import type { BackendLimits } from '@shardwise/core/spec';

/** Where sub-buffers may begin: at whole vectors of four words. */
export const alignmentBytes = 16;

export const limits: BackendLimits = {
  dtypes: new Set(['f32', 'i32', 'bool']),
  native: new Set([
    ...(['sigmoid', 'relu', 'silu', 'softplus', 'gelu', 'geluGrad'] as const),
    ...(['softmax', 'softmaxGrad', 'logSoftmax', 'logSoftmaxGrad'] as const),
    ...(['layerNorm', 'layerNormInputGrad', 'layerNormWeightGrad'] as const),
    ...(['groupedMatmul', 'groupedMatmulWeight'] as const),
    ...(['attention', 'attentionLogSumExp'] as const),
    ...(['attentionQueryGrad', 'attentionKeyGrad', 'attentionValueGrad'] as const),
    ...(['rmsNorm', 'rmsNormInputGrad', 'rmsNormWeightGrad'] as const),
  ]),
  alignment: alignmentBytes,
};
