// The functions of torch.nn.functional, as one namespace for the package's entry point.
export { scaledDotProductAttention, type AttentionOptions } from './functional/attention.ts';
export {
  binaryCrossEntropy,
  binaryCrossEntropyWithLogits,
  sigmoidFocalLoss,
  type BinaryCrossEntropyOptions,
  type BinaryCrossEntropyWithLogitsOptions,
  type SigmoidFocalLossOptions,
} from './functional/binary-cross-entropy.ts';
export { conv2d, type Conv2dOptions, type Size2d } from './functional/conv2d.ts';
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
export { linear } from './functional/linear.ts';
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
export {
  avgPool2d,
  maxPool2d,
  type MaxPoolOptions,
  type PoolOptions,
} from './functional/pool2d.ts';
export type { Reduction } from './functional/reduction.ts';
