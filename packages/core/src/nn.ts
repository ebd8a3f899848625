// The names of torch.nn, as one group for users.
export * as functional from './nn/functional.ts';
export * as init from './random/init.ts';
export type { FullBackwardHook, Gradients } from './nn/backward-hooks.ts';
export type { ForwardHook, ForwardPreHook } from './nn/forward-hooks.ts';
export { Module, type Named } from './nn/module.ts';
export { constructTemporary } from './nn/construction/constructions.ts';
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
export {
  ELU,
  GELU,
  LeakyReLU,
  LogSoftmax,
  Mish,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from './nn/activations.ts';
export { AdaptiveAvgPool1d, AdaptiveAvgPool2d } from './nn/adaptive-avg-pool.ts';
export { AvgPool2d } from './nn/avg-pool2d.ts';
export type { BatchNormOptions } from './nn/batch-norm.ts';
export { BatchNorm1d } from './nn/batch-norm1d.ts';
export { BatchNorm2d } from './nn/batch-norm2d.ts';
export { BatchNorm3d } from './nn/batch-norm3d.ts';
export { Conv1d, type Conv1dLayerOptions } from './nn/conv1d.ts';
export { Conv2d, type Conv2dLayerOptions } from './nn/conv2d.ts';
export { Conv3d, type Conv3dLayerOptions } from './nn/conv3d.ts';
export { ConvTranspose2d, type ConvTranspose2dLayerOptions } from './nn/conv-transpose2d.ts';
export { Dropout } from './nn/dropout.ts';
export { Embedding } from './nn/embedding.ts';
export { auxiliaryLoss } from './nn/experts/auxiliary-loss.ts';
export { updateExpertBias } from './nn/experts/update-expert-bias.ts';
export {
  balanceLoss,
  routerZLoss,
  type BalanceLoss,
  type BalanceOptions,
} from './nn/experts/balance-loss.ts';
export type { BiasUpdate } from './nn/experts/expert-bias.ts';
export { expertChoiceGate, type ExpertChoiceGateOptions } from './nn/experts/expert-choice-gate.ts';
export { Experts, type ExpertActivation, type ExpertsOptions } from './nn/experts/experts.ts';
export type { Gate, GateInput, Routing } from './nn/experts/gate.ts';
export { gshardGate, type GShardGateOptions } from './nn/experts/gshard-gate.ts';
export type { Capacity } from './nn/experts/limit-routes.ts';
export { MixtureOfExperts, type MixtureOfExpertsOptions } from './nn/experts/mixture-of-experts.ts';
export { routerMetrics } from './nn/experts/router-metrics.ts';
export type { RouterStatistics } from './nn/experts/router-statistics.ts';
export { roundRobinGate, type RoundRobinGateOptions } from './nn/experts/round-robin-gate.ts';
export { switchGate, type SwitchGateOptions } from './nn/experts/switch-gate.ts';
export { topKGate, type ExpertGroups, type TopKGateOptions } from './nn/experts/top-k-gate.ts';
export { Flatten } from './nn/flatten.ts';
export { GroupNorm, type GroupNormOptions } from './nn/group-norm.ts';
export { GRU } from './nn/gru.ts';
export { Identity } from './nn/identity.ts';
export { InstanceNorm1d, InstanceNorm2d, InstanceNorm3d } from './nn/instance-norm.ts';
export { LayerNorm } from './nn/layer-norm.ts';
export { Linear } from './nn/linear.ts';
export {
  BCELoss,
  BCEWithLogitsLoss,
  CosineEmbeddingLoss,
  CrossEntropyLoss,
  CTCLoss,
  HuberLoss,
  KLDivLoss,
  L1Loss,
  MSELoss,
  NLLLoss,
  SmoothL1Loss,
  TripletMarginLoss,
} from './nn/losses.ts';
export { LSTM, type LSTMState } from './nn/lstm.ts';
export { MaxPool2d } from './nn/max-pool2d.ts';
export { ModuleDict } from './nn/module-dict.ts';
export { ModuleList } from './nn/module-list.ts';
export {
  MultiheadAttention,
  type MultiheadAttentionCall,
  type MultiheadAttentionOptions,
} from './nn/multihead-attention.ts';
export { ParameterList } from './nn/parameter-list.ts';
export { AvgPool1d, MaxPool1d } from './nn/pool1d.ts';
export type { RecurrentOptions } from './nn/recurrent.ts';
export { RMSNorm } from './nn/rms-norm.ts';
export { Sequential, type Layer } from './nn/sequential.ts';
export {
  convertSyncBatchNorm,
  SyncBatchNorm,
  type SyncBatchNormOptions,
} from './nn/sync-batch-norm.ts';
export {
  TransformerDecoderLayer,
  type TransformerDecoderCall,
} from './nn/transformer-decoder-layer.ts';
export { TransformerEncoderLayer } from './nn/transformer-encoder-layer.ts';
export type { TransformerLayerOptions } from './nn/transformer-layer-options.ts';
