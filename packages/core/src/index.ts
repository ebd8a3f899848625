export * from './spec/index.ts';
export { Tensor, type DivideOptions, type MatmulOptions, type Operand } from './tensor/tensor.ts';
export type { RoundingMode } from './tensor/arithmetic.ts';
export type { ReduceOptions, VarianceOptions } from './tensor/reductions.ts';
export {
  boxOf,
  boxShape,
  type Chunk,
  chunkRange,
  chunksOf,
  type DimRange,
  dimRanges,
  localShape,
  type PlaceOf,
  sameBox,
  wholeChunk,
} from './layout/chunks.ts';
export { commonRuns, type CommonRun } from './layout/common-runs.ts';
export { takeChunks } from './layout/take-chunks.ts';
export {
  axesOfLayout,
  formatLayout,
  joinLayouts,
  replicated,
  shardedAxes,
  unsharded,
} from './layout/layout.ts';
export { indicesInRange } from './tensor/indices-in-range.ts';
export { type AfterBackward, queueAfterBackward, TensorHandle } from './tensor/handle.ts';
export {
  Gradient,
  type GradientHook,
  type GradientReduction,
  type Update,
} from './tensor/gradient.ts';
export { GradientSum } from './tensor/gradient-sum.ts';
export {
  arange,
  concat,
  fromArray,
  fromData,
  full,
  ones,
  stack,
  tensor,
  zeros,
  type NestedNumbers,
} from './tensor/create.ts';
export type { HostData } from './tensor/host-data.ts';
export { inputNode, isGradEnabled, noGrad, type GradientSink, type Node } from './graph/node.ts';
export { withoutValues } from './realize/small-values.ts';
export { synchronously } from './ambient.ts';
export { userLine } from './graph/call-site.ts';
export { activationBytes } from './autograd/activation-bytes.ts';
export { RecomputeRegion, type RecomputeOptions } from './autograd/recompute.ts';
export { setRank, currentSession, ownPlace, type Rank } from './rank.ts';
export { LineMesh, LocalMesh, axisOf } from './mesh.ts';
export { statistics, subscribe, type Statistics, type TimelineEvent } from './timeline.ts';
export { elementCount, formatShape, sameShape } from './shape.ts';
export { inspecting, printing, type PrintForm } from './print/inspect.ts';
export {
  allGather,
  allReduce,
  allToAll,
  broadcast,
  reduce,
  reduceScatter,
  localChunk,
  reinterpret,
  sendRecv,
} from './tensor/collectives.ts';
export { hostArray, type HostArray, type HostArrays } from './serialization/host-array.ts';
export {
  decodeSafetensors,
  decodeSafetensorsHeader,
  encodeSafetensors,
  encodeSafetensorsHeader,
  safetensorsHeaderBytes,
  type SafetensorsContents,
  type SafetensorsEntry,
  type SafetensorsHeader,
  type SafetensorsPlace,
} from './serialization/safetensors.ts';
export { stateMismatch, type StateDifferences } from './serialization/state-mismatch.ts';
export { hostPages } from './paging/host-pages.ts';
export type { Page, PageStore } from './paging/page.ts';
export { Generator } from './random/generator.ts';
export type { GeneratorState } from './random/generator-state.ts';
export * as initializers from './random/init.ts';
export {
  isNDArray,
  mapArrays,
  ndArray,
  ndArrayView,
  type ArrayTree,
  type NDArray,
  type TypedArrays,
} from './data/nd-array.ts';
export type { Dataset } from './data/dataset.ts';
export { ArrayDataset } from './data/array-dataset.ts';
export {
  splitText,
  TextDataset,
  type TextDatasetOptions,
  type TextSample,
} from './data/text-dataset.ts';
export { randomSplit, Subset } from './data/subset.ts';
export { collate } from './data/collate.ts';
export { SequentialSampler } from './data/sequential-sampler.ts';
export { RandomSampler, type RandomSamplerOptions } from './data/random-sampler.ts';
export { DistributedSampler, type DistributedSamplerOptions } from './data/distributed-sampler.ts';
export { BatchSampler } from './data/batch-sampler.ts';
export type { ResumableSampler, SamplerSettings } from './data/resumable-sampler.ts';
export { DataLoader, type DataLoaderOptions } from './data/data-loader.ts';
export type { LoaderState } from './data/loader-state.ts';
export type { WorkerDataset } from './data/worker-dataset.ts';
export { Module, type Named } from './nn/module.ts';
export { constructTemporary } from './nn/construction/construct-temporary.ts';
export {
  BufferTensor,
  constructParts,
  type InitialPart,
  Parameter,
  ParameterPart,
  type BufferOptions,
  type KeepPart,
  type ParameterOptions,
  type ParameterPartOptions,
} from './nn/parameter.ts';
export { DividedParameter } from './nn/divided-parameter.ts';
export { loadRules, type LoadOptions, type LoadReport, type StateDict } from './nn/state-dict.ts';
export { convertArray } from './nn/convert-array.ts';
export * as functional from './nn/functional.ts';
export {
  checkpoint,
  keepProducts,
  offloadProducts,
  type CheckpointOptions,
  type CheckpointPolicy,
} from './nn/checkpoint.ts';
export { AvgPool2d } from './nn/avg-pool2d.ts';
export { BatchNorm2d, type BatchNorm2dOptions } from './nn/batch-norm2d.ts';
export { Conv2d, type Conv2dLayerOptions } from './nn/conv2d.ts';
export { Dropout } from './nn/dropout.ts';
export { Embedding } from './nn/embedding.ts';
export { Flatten } from './nn/flatten.ts';
export { GELU } from './nn/gelu.ts';
export { LayerNorm } from './nn/layer-norm.ts';
export { Linear } from './nn/linear.ts';
export { MaxPool2d } from './nn/max-pool2d.ts';
export { ModuleList } from './nn/module-list.ts';
export {
  MultiheadAttention,
  type MultiheadAttentionCall,
  type MultiheadAttentionOptions,
} from './nn/multihead-attention.ts';
export { ReLU } from './nn/relu.ts';
export { RMSNorm } from './nn/rms-norm.ts';
export { Sequential, type Layer } from './nn/sequential.ts';
export { Sigmoid } from './nn/sigmoid.ts';
export { SiLU } from './nn/silu.ts';
export { summary, type ModelSummary, type ModuleSummary } from './nn/summary/summary.ts';
export { Tanh } from './nn/tanh.ts';
export { tokenLossScale, type TokenLossScaleOptions } from './nn/token-loss-scale.ts';
export { Adam } from './optim/adam.ts';
export { AdamW } from './optim/adam-w.ts';
export { AdamW8bit, type AdamW8bitOptions } from './optim/adam-w-8bit.ts';
export type { AdamSettings } from './optim/adam-rule.ts';
export {
  clipGradNorm,
  clipGradsWithNorm,
  totalGradNorm,
  type GradNormOptions,
} from './optim/clip-grad-norm.ts';
export {
  LearningRateScheduler,
  type LearningRateSchedulerState,
  type ScheduledOptimizer,
} from './optim/learning-rate-scheduler.ts';
export {
  DynamicLossScaler,
  type DynamicLossScalerOptions,
  type DynamicLossScalerState,
} from './optim/dynamic-loss-scaler.ts';
export { LossScaler, type ScaledOptimizer } from './optim/loss-scaler.ts';
export { Lamb } from './optim/lamb.ts';
export {
  OneBitAdam,
  type OneBitAdamOptions,
  type OneBitAdamSettings,
} from './optim/one-bit-adam.ts';
export {
  type BuildStepOptions,
  endStep,
  Optimizer,
  type OptimizerStateDict,
  type SavedState,
  type StepOptions,
  type UpdateRule,
} from './optim/optimizer.ts';
export type { ParameterState } from './optim/parameter-state.ts';
export { stepName } from './optim/saved-arrays.ts';
export type { SavedType, StateType } from './optim/state-type.ts';
export { checkSetting } from './optim/param-group.ts';
export { Scalar } from './optim/scalar.ts';
export { sumOverParts } from './optim/sum-over-parts.ts';
export type {
  OptimizerInput,
  OptimizerSettings,
  ParamGroup,
  ParamGroupInput,
} from './optim/param-group.ts';
export {
  constantSchedule,
  cosineSchedule,
  exponentialSchedule,
  linearSchedule,
  multiStepSchedule,
  stepSchedule,
  warmupSchedule,
  type Schedule,
} from './optim/schedules.ts';
export { SGD, type SGDSettings } from './optim/sgd.ts';
export {
  defaultGenerator,
  manualSeed,
  nextKey,
  randomState,
  setRandomState,
  withCoordinateKeys,
  type RandomState,
} from './random/keys.ts';
