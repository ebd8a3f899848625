import { normalize, normalizeGrad, normalizeWeightGrad } from '../../src/wasm/rows/norm.ts';
import type { RowProgram } from '../../src/wasm/rows/rows.ts';
import { logSoftmax, logSoftmaxGrad, softmax, softmaxGrad } from '../../src/wasm/rows/softmax.ts';

const eps = 1e-5;
const all = { residual: true, weight: true, bias: true };
const none = { residual: false, weight: false, bias: false };

/** Everything that is done to rows. */
export const rowPrograms: Readonly<Record<string, RowProgram>> = {
  softmax,
  softmaxGrad,
  logSoftmax,
  logSoftmaxGrad,
  layerNorm: normalize('layerNorm', eps),
  rmsNorm: normalize('rmsNorm', eps),
  'gradients of layerNorm': normalizeGrad('layerNorm', eps, all),
  'gradient of layerNorm': normalizeGrad('layerNorm', eps, none),
  'gradients of rmsNorm': normalizeGrad('rmsNorm', eps, all),
  'weight gradient of rmsNorm': normalizeWeightGrad('rmsNorm', eps),
};
