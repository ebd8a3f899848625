// The names of torch.nn, as one group for users.
export * as functional from './nn/functional.ts';
export * as init from './random/init.ts';
export { Module, type Named } from './nn/module.ts';
export {
  BufferTensor,
  Parameter,
  type BufferOptions,
  type ParameterOptions,
} from './nn/parameter.ts';
export type { LoadOptions, LoadReport, StateDict } from './nn/state-dict.ts';
export {
  checkpoint,
  keepProducts,
  offloadProducts,
  type CheckpointOptions,
  type CheckpointPolicy,
} from './nn/checkpoint.ts';
export { summary } from './nn/summary/summary.ts';
export type { ModelSummary, ModuleSummary } from './nn/summary/model-summary.ts';
export { tokenLossScale, type TokenLossScaleOptions } from './nn/token-loss-scale.ts';
export { GELU, ReLU, Sigmoid, SiLU, Tanh } from './nn/activations.ts';
export { AvgPool2d } from './nn/avg-pool2d.ts';
export { BatchNorm2d, type BatchNorm2dOptions } from './nn/batch-norm2d.ts';
export { Conv2d, type Conv2dLayerOptions } from './nn/conv2d.ts';
export { Dropout } from './nn/dropout.ts';
export { Embedding } from './nn/embedding.ts';
export { Flatten } from './nn/flatten.ts';
export { LayerNorm } from './nn/layer-norm.ts';
export { Linear } from './nn/linear.ts';
export { MaxPool2d } from './nn/max-pool2d.ts';
export { ModuleList } from './nn/module-list.ts';
export {
  MultiheadAttention,
  type MultiheadAttentionCall,
  type MultiheadAttentionOptions,
} from './nn/multihead-attention.ts';
export { RMSNorm } from './nn/rms-norm.ts';
export { Sequential, type Layer } from './nn/sequential.ts';
