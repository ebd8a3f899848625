// This file collects the functions of torch.nn.functional as one namespace for the package's entry point.
export {
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  type OutputSize2d,
} from './functional/adaptive-avg-pool.ts';
export { scaledDotProductAttention, type AttentionOptions } from './functional/attention.ts';
export {
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  sigmoidFocalLoss,
  type BinaryCrossEntropyOptions,
  type BinaryCrossEntropyWithLogitsOptions,
  type SigmoidFocalLossOptions,
} from './functional/binary-cross-entropy.ts';
export { conv1d, type Conv1dOptions } from './functional/conv1d.ts';
export { conv2d, type Conv2dOptions } from './functional/conv2d.ts';
export { conv3d, type Conv3dOptions } from './functional/conv3d.ts';
export { convTranspose2d, type ConvTranspose2dOptions } from './functional/conv-transpose2d.ts';
export type { Size2d, Size3d } from './functional/window-size.ts';
export {
  crossEntropy,
  nllLoss,
  type CrossEntropyOptions,
  type NllLossOptions,
} from './functional/cross-entropy.ts';
export { ctcLoss, type CtcLossOptions } from './functional/ctc-loss.ts';
export {
  cosineEmbeddingLoss,
  tripletMarginLoss,
  type CosineEmbeddingLossOptions,
  type TripletMarginLossOptions,
} from './functional/distance-losses.ts';
export { dropout } from './functional/dropout.ts';
export { embedding } from './functional/embedding.ts';
export { interpolate, type InterpolateOptions } from './functional/interpolate.ts';
export { linear } from './functional/linear.ts';
export {
  linearCrossEntropy,
  type LinearCrossEntropyOptions,
} from './functional/linear-cross-entropy.ts';
export { klDiv, type KlDivOptions } from './functional/kl-div.ts';
export {
  huberLoss,
  l1Loss,
  mseLoss,
  smoothL1Loss,
  type HuberOptions,
  type LossOptions,
  type SmoothL1Options,
} from './functional/losses.ts';
export { pixelShuffle, pixelUnshuffle } from './functional/pixel-shuffle.ts';
export {
  avgPool1d,
  maxPool1d,
  type MaxPool1dOptions,
  type Pool1dOptions,
} from './functional/pool1d.ts';
export {
  avgPool2d,
  maxPool2d,
  type MaxPoolOptions,
  type PoolOptions,
} from './functional/pool2d.ts';
export type { Reduction } from './functional/reduction.ts';
export type { InterpolationMode } from './functional/resample-taps.ts';
export { unfold, type UnfoldOptions } from './functional/unfold.ts';
