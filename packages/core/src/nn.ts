// The names of torch.nn, as one group for users.
export * as functional from './nn/functional.ts';
export * as init from './random/init.ts';
export type { FullBackwardHook, Gradients } from './nn/module/backward-hooks.ts';
export type { ForwardHook, ForwardPreHook } from './nn/module/forward-hooks.ts';
export { Module, type Named } from './nn/module/module.ts';
export { constructTemporary } from './nn/construction/constructions.ts';
export {
  BufferTensor,
  Parameter,
  type BufferOptions,
  type ParameterOptions,
} from './nn/parameter/parameter.ts';
export type { LoadOptions, LoadReport, StateDict } from './nn/state/state-dict.ts';
export {
  checkpoint,
  keepProducts,
  offloadProducts,
  type CheckpointBudget,
  type CheckpointOptions,
  type CheckpointPolicy,
} from './nn/checkpoint.ts';
export {
  activationMemoryBudget,
  type ActivationMemoryBudgetOptions,
} from './recomputation/activation-memory-budget.ts';
export type { RecomputationChoice } from './recomputation/recomputation-choice.ts';
export { tiled, type TiledOptions } from './nn/tiled.ts';
export { summary } from './nn/summary/summary.ts';
export type { ModelSummary, ModuleSummary } from './nn/summary/model-summary.ts';
export { tokenLossScale, type TokenLossScaleOptions } from './nn/losses/token-loss-scale.ts';
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
} from './nn/layers/activations.ts';
export { AdaptiveAvgPool1d, AdaptiveAvgPool2d } from './nn/pooling/adaptive-avg-pool.ts';
export { AvgPool2d, MaxPool2d } from './nn/pooling/pool2d.ts';
export type { BatchNormOptions } from './nn/norm/batch-norm.ts';
export { BatchNorm1d, BatchNorm2d, BatchNorm3d } from './nn/norm/batch-norm-layers.ts';
export { Conv1d, type Conv1dLayerOptions } from './nn/convolution/conv1d.ts';
export { Conv2d, type Conv2dLayerOptions } from './nn/convolution/conv2d.ts';
export { Conv3d, type Conv3dLayerOptions } from './nn/convolution/conv3d.ts';
export {
  ConvTranspose2d,
  type ConvTranspose2dLayerOptions,
} from './nn/convolution/conv-transpose2d.ts';
export { Dropout } from './nn/layers/dropout.ts';
export { Embedding } from './nn/layers/embedding.ts';
export { auxiliaryLoss, routerMetrics, updateExpertBias } from './nn/experts/expert-layers.ts';
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
export {
  gshardGate,
  type GShardGateOptions,
  switchGate,
  type SwitchGateOptions,
} from './nn/experts/switch-and-gshard-gates.ts';
export type { Capacity } from './nn/experts/limit-routes.ts';
export { MixtureOfExperts, type MixtureOfExpertsOptions } from './nn/experts/mixture-of-experts.ts';
export type { RouterStatistics } from './nn/experts/router-statistics.ts';
export { roundRobinGate, type RoundRobinGateOptions } from './nn/experts/round-robin-gate.ts';
export { topKGate, type ExpertGroups, type TopKGateOptions } from './nn/experts/top-k-gate.ts';
export { Flatten } from './nn/layers/flatten.ts';
export { GroupNorm, type GroupNormOptions } from './nn/norm/group-norm.ts';
export { GRU } from './nn/recurrent/gru.ts';
export { Identity } from './nn/layers/identity.ts';
export { InstanceNorm1d, InstanceNorm2d, InstanceNorm3d } from './nn/norm/instance-norm.ts';
export { LayerNorm } from './nn/norm/layer-norm.ts';
export { Linear } from './nn/layers/linear.ts';
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
} from './nn/losses/losses.ts';
export { LSTM, type LSTMState } from './nn/recurrent/lstm.ts';
export { ModuleDict } from './nn/containers/module-dict.ts';
export { ModuleList } from './nn/containers/module-list.ts';
export {
  MultiheadAttention,
  type MultiheadAttentionCall,
  type MultiheadAttentionOptions,
} from './nn/attention/multihead-attention.ts';
export { ParameterList } from './nn/containers/parameter-list.ts';
export { AvgPool1d, MaxPool1d } from './nn/pooling/pool1d.ts';
export type { RecurrentOptions } from './nn/recurrent/recurrent.ts';
export { RMSNorm } from './nn/norm/rms-norm.ts';
export { Sequential, type Layer } from './nn/containers/sequential.ts';
export {
  convertSyncBatchNorm,
  SyncBatchNorm,
  type SyncBatchNormOptions,
} from './nn/norm/sync-batch-norm.ts';
export {
  TransformerDecoderLayer,
  type TransformerDecoderCall,
} from './nn/attention/transformer-decoder-layer.ts';
export { TransformerEncoderLayer } from './nn/attention/transformer-encoder-layer.ts';
export type { TransformerLayerOptions } from './nn/attention/transformer-layer-options.ts';
