import type { BackendLimits } from '@shardwise/core/spec';
import { BINDING_ALIGNMENT_BYTES } from './gpu-constants.ts';

/**
 * Sub-buffers begin at multiples of this. Bindings may begin there too, so the bindings of sub-buffers of one large
 * buffer do not overlap.
 */
export const alignmentBytes: number = BINDING_ALIGNMENT_BYTES;

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
