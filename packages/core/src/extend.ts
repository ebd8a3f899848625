// The entry point for authors of strategies, modules, optimizers and launchers. It has the interfaces, and names that
// scripts of users do not need. It repeats the users' names that authors build on, so that one import is enough.
export * from './spec/index.ts';
export * from './base/index.ts';

// Tensors, and the functions that authors need besides their methods.
export { Tensor } from './tensor/tensor.ts';
export { arange } from './tensor/create-ranges.ts';
export { concat, fromArray, fromData, full, stack, zeros } from './tensor/create.ts';
export { fromBytes, type HostData } from './tensor/host-data.ts';
export {
  allGather,
  allReduce,
  allToAll,
  broadcast,
  localChunk,
  reduce,
  reduceScatter,
  reinterpret,
  sendRecv,
} from './tensor/collectives.ts';
export { requireTensors } from './tensor/check-arguments.ts';
export { requireNoMore } from './tensor/check-calls.ts';
export { sendRows } from './tensor/row-exchange.ts';
export { dynamic } from './tensor/dynamic.ts';
export { scaleGradient } from './tensor/scale-gradient.ts';
export { customFunction } from './tensor/custom-function.ts';
export { declareAxisTypes, type DeclaredAxisTypes } from './tensor/declare-axis-types.ts';
export { nearestName } from './base/nearest-name.ts';
export { normalizeDim } from './base/shape.ts';
export { printing } from './print/inspect.ts';
export { indicesInRange } from './tensor/indices-in-range.ts';

// Layouts, which say what part of a tensor each rank has.
export {
  axesOfLayout,
  formatLayout,
  joinLayouts,
  replicated,
  shardedAxes,
  unsharded,
} from './layout/layout.ts';
export {
  boxOf,
  boxShape,
  type Chunk,
  chunkRange,
  chunksOf,
  type DimRange,
  dimRanges,
  isHeldAt,
  localShape,
  type PlaceOf,
  sameBox,
  wholeChunk,
} from './layout/chunks.ts';
export { commonRuns } from './layout/common-runs.ts';
export { covers } from './layout/covers.ts';
export { formatChunk } from './layout/format-chunk.ts';
export {
  chunkKey,
  type HeldChunk,
  type TensorChunk,
  type VaryingAxis,
} from './layout/held-chunk.ts';
export { planChunks } from './layout/plan-chunks.ts';
export { takeChunks } from './layout/take-chunks.ts';

// Tensors that lie on several ranks, and their way from one layout into another.
export {
  activationRule,
  type ActivationLayout,
  type ActivationSharding,
  type AxisLayout,
  axisLayoutOf,
  type DimSharding,
  formatAxisLayout,
  isSharding,
  layoutOver,
  sameAxisLayout,
  shard,
  type Sharding,
  unsummedRule,
} from './distributed/axis-layout.ts';
export { axisSize, firstPlace } from './distributed/axis-size.ts';
export { checkLayout } from './distributed/check-layout.ts';
export { type CollectiveCounts, countCollectives } from './distributed/count-collectives.ts';
export { distributeTensor, fromLocal } from './distributed/distribute-tensor.ts';
export {
  asVarying,
  fromParts,
  padTo,
  partOf,
  type Place,
  toParts,
} from './distributed/equal-parts.ts';
export { layoutOf } from './distributed/layout-of.ts';
export { collectivesOfMove, moveOver } from './distributed/moves.ts';
export { paddedShape, partShape } from './distributed/part-shapes.ts';
export { planRedistribution } from './distributed/plan-redistribution.ts';
export { redistribute, redistributeOver, shardOf, unshard } from './distributed/redistribute.ts';
export {
  formatRedistribution,
  type RedistributionMove,
  type RedistributionPlan,
  type RedistributionStep,
} from './distributed/redistribution.ts';

// Gradients, and the building of the graph.
export { autocast } from './graph/autocast.ts';
export { isCollectiveOp } from './graph/ops/ops.ts';
export { lowered } from './nn/functional/lowered.ts';
export { linearLogSumExp } from './nn/functional/linear-log-sum-exp.ts';
export { widened } from './nn/functional/widened.ts';
export {
  currentRegion,
  inRegion,
  inputNode,
  isGradEnabled,
  newestNodeId,
  noGrad,
} from './graph/create-node.ts';
export { CallSite, placeOf } from './graph/call-site.ts';
export { isOp, type Node, type NodeValue, type Seeded } from './graph/node.ts';
export {
  Gradient,
  type GradientHook,
  type GradientReduction,
  type LeafGradient,
  type Update,
} from './tensor/gradient.ts';
export type { UpdateRequest, Updater } from './tensor/updater.ts';
export { GradientSum } from './tensor/gradient-sum.ts';
export { queueAfterBackward } from './tensor/run-backward.ts';
export { RecomputeRegion } from './autograd/recompute.ts';
export { backwardTo } from './autograd/backward-to.ts';
export { checkLossTypes } from './autograd/check-loss-types.ts';
export { constantLike } from './graph/ops/leaf.ts';
export { add as addNodes, mul as mulNodes, where as whereNodes } from './graph/ops/elementwise.ts';
export { addParts, partWhere } from './autograd/sum-parts.ts';
export { freeNode } from './graph/ownership.ts';
export { Storage } from './graph/storage.ts';
export { dropWork, takingWork } from './realize/pending/pending.ts';
export { ReversibleUpdate } from './realize/pending/reversible-update.ts';
export { traceProgram, type TracedProgram } from './realize/values/traced-program.ts';
export type { PendingWork } from './realize/pending/pending-work.ts';
export {
  newRankState,
  type RankState,
  rankState,
  replaceRankState,
  synchronously,
} from './ambient.ts';
export {
  dropReduction,
  keepAverage,
  inForwardPass,
  noteUse,
  withCollectiveOrder,
} from './graph/program-order.ts';
export { collectiveIdentity, withCollectiveName } from './graph/collective-identity.ts';
export { noteSettings } from './graph/step-settings.ts';
export { targetOf } from './graph/updated-leaves.ts';
export { hashOf, hashOfNumbers, hashOffset, mixed } from './hash.ts';
export { withoutValues } from './realize/pending/small-values.ts';

// The rank: its session, its timeline, its random numbers and its pages.
export { currentSession, ownPlace } from './rank.ts';
export type { Compute, Deferred } from './realize/session.ts';
export { axisOf, placeInMesh } from './mesh.ts';
export { count, record, subscribe, varyingSizes } from './timeline.ts';
export type { TimelineEvent, VaryingSize } from './timeline-event.ts';
export { Generator } from './random/generator.ts';
export type { GeneratorState } from './random/generator-state.ts';
export {
  defaultGenerator,
  nextKey,
  randomState,
  setRandomState,
  withBatchPart,
  withCoordinateKeys,
} from './random/keys.ts';
export { pageOut, refresh } from './graph/ops/transfer.ts';
export type { PageSource, PageStore } from './paging/page.ts';

// Checks of data from outside: from a file or a connection.
export * as check from './saved-data.ts';

// Modules and their parameters.
export { evaluating } from './nn/module/evaluating.ts';
export { Module, type Named } from './nn/module/module.ts';
export { constructions } from './nn/construction/constructions.ts';
export { requireModule } from './nn/module/require-module.ts';
export { flopsOf } from './graph/flops-of.ts';
export { observeGraph } from './graph/observe-graph.ts';
export type { GraphObserver } from './graph/graph-observer.ts';
export { type GraphPlace, GraphPlaces, type Phase, phases } from './nn/profile/graph-places.ts';
export { type PlanListener, timePlans } from './realize/times/time-plans.ts';
export type { ProgramPart } from './realize/times/program-parts.ts';
export {
  type MemoryAllocation,
  MemoryRecorder,
  type MemoryRecord,
} from './realize/memory/memory-recorder.ts';
export type { MemoryValue } from './realize/memory/watched-run.ts';
export { BufferTensor, constructParts, Parameter } from './nn/parameter/parameter.ts';
export {
  type KeptWhole,
  ParameterPart,
  type ParameterPartOptions,
  type PartCopy,
} from './nn/parameter/parameter-part.ts';
export type { InitialPart } from './nn/parameter/initial-part.ts';
export { gradientHookError, type Placement } from './tensor/placement.ts';
export { Conv2d } from './nn/convolution/conv2d.ts';
export { Dropout } from './nn/layers/dropout.ts';
export { Embedding } from './nn/layers/embedding.ts';
export { BatchNorm2d } from './nn/norm/batch-norm-layers.ts';
export { LayerNorm } from './nn/norm/layer-norm.ts';
export { RMSNorm } from './nn/norm/rms-norm.ts';
export { Linear } from './nn/layers/linear.ts';
export { ModuleDict } from './nn/containers/module-dict.ts';
export { ModuleList } from './nn/containers/module-list.ts';
export { type Layer, Sequential } from './nn/containers/sequential.ts';
export { MixtureOfExperts } from './nn/experts/mixture-of-experts.ts';
export type { Gate, Routing } from './nn/experts/gate.ts';
export { topKGate } from './nn/experts/top-k-gate.ts';
export { sequenceAxesOf } from './nn/experts/sequence-axes.ts';
export { MaxPool2d } from './nn/pooling/pool2d.ts';
export { MultiheadAttention } from './nn/attention/multihead-attention.ts';
export * as functional from './nn/functional.ts';
export { checkpoint, type CheckpointOptions } from './nn/checkpoint.ts';
export { activationMemoryBudget } from './recomputation/activation-memory-budget.ts';
export { plannedLives, type PlannedLife } from './recomputation/planned-lives.ts';

// Sequences of which each rank has a part.
export type { AttentionRequest, SequencePart } from './graph/sequence-part.ts';
export {
  attentionGradientsOfPart,
  type AttentionOfPart,
  attentionOfPart,
  type PartOfKeys,
} from './nn/functional/attention-of-part.ts';
export { codecOf, type DecodedFormat } from './nn/functional/block-codec.ts';
export { blockedLinear } from './nn/functional/blocked-linear.ts';
export { pagedAttention, type PagedKeys } from './nn/functional/paged-attention.ts';
export {
  gatherSequence,
  inSequencePart,
  outsideSequencePart,
  sumOverSequence,
} from './nn/sequence-part.ts';

// Optimizers, and the states that they save.
export {
  endStep,
  Optimizer,
  type OptimizerStateDict,
  type StepOptions,
  type UpdateRule,
} from './optim/optimizer.ts';
export type { SavedState } from './optim/optimizer-states.ts';
export { BatchNorm } from './nn/norm/batch-norm.ts';
export { LossScaler } from './optim/loss-scaler.ts';
export {
  checkSetting,
  type OptimizerInput,
  type OptimizerSettings,
  type ParamGroup,
  type ParamGroupInput,
} from './optim/param-group.ts';
export type { ParameterState } from './optim/parameter-state.ts';
export { stepName } from './optim/saved-arrays.ts';
export type { SavedType } from './optim/state-type.ts';
export { Scalar } from './optim/scalar.ts';
export {
  clipFactor,
  normOfSquares,
  type OwnSum,
  type OwnSums,
  ownSquares,
  scaleGradients,
} from './optim/clip-grad-norm.ts';
export { sumOverParts } from './optim/sum-over-parts.ts';

// Data.
export { type ArrayTree, type NDArray, ndArray, printArrays } from './tensor/nd-array.ts';
export { causeOf, type ErrorReport, reportOf } from './data/worker-message.ts';
export { specifierOf } from './data/worker-dataset.ts';
export type { Dataset } from './data/dataset.ts';
export { checkIndex } from './data/dataset.ts';
export type { IterableDataset } from './data/iterable-dataset.ts';
export { DistributedSampler } from './data/distributed-sampler.ts';

// Files of states.
export { hostArray, type HostArray, type HostArrays } from './serialization/host-array.ts';
export {
  decodeSafetensors,
  encodeSafetensors,
  encodeSafetensorsHeader,
} from './serialization/safetensors.ts';
export { requireFit, stateMismatch } from './serialization/state-mismatch.ts';
export type {
  SourcePart,
  SourceTensor,
  TensorReader,
  TensorSource,
} from './serialization/tensor-source.ts';
export {
  fillFully,
  type FolderEntry,
  type FolderFile,
  isWritableFolder,
  type ModelFolder,
  openFile,
  pathIn,
  type RandomAccessFile,
  readBytes,
  type WritableFolder,
} from './serialization/model-folder.ts';
export { httpFile, httpFolder } from './folders/http-folder.ts';
export type { HttpOptions } from './folders/http-request.ts';
export {
  dtypeOfTorch,
  openTorchFile,
  openTorchObject,
  type TorchFile,
  type TorchObject,
} from './serialization/pickle/open-torch-file.ts';
export {
  isContiguous,
  PickledDict,
  PickledList,
  PickledObject,
  PickledTensor,
  PickledTuple,
  type PickledValue,
} from './serialization/pickle/pickle-values.ts';
export { readRuns, type StoredArray } from './serialization/read-runs.ts';
export { type DirectoryHandle, pickedFolder } from './serialization/picked-folder.ts';
export { onAllRanks, SaveFailure } from './serialization/on-all-ranks.ts';
export { isIndexName, parseWeightMap, type WeightMap } from './serialization/safetensors-index.ts';
export { type SafetensorsSource, safetensorsSource } from './serialization/safetensors-source.ts';
export { constructAs } from './nn/load/construct-as.ts';
export { roundArray } from './nn/load/round-array.ts';
export {
  loadTensors,
  loadTensorsRules,
  type LoadTensorsOptions,
  type TensorNames,
  tensorsToKeep,
} from './nn/load/load-tensors.ts';
export { modelTensors, type ModelTensor } from './nn/load/model-tensors.ts';
export { convertArray } from './nn/state/convert-array.ts';
export {
  loadRules,
  type LoadOptions,
  type LoadReport,
  readStateDict,
} from './nn/state/state-dict.ts';
