// The entry point for users. Names that are in a namespace in PyTorch are in the same namespace here. The entry points
// for authors are extend.ts, spec/ and base/.
export * as nn from './nn.ts';
export * as optim from './optim.ts';
export * as data from './data.ts';
export * as autograd from './autograd.ts';
export * as linalg from './linalg.ts';
export { Tensor, type Operand } from './tensor/tensor.ts';
export type { AddProductOptions, DivideOptions } from './tensor/methods/binary-methods.ts';
export type { MatmulOptions } from './tensor/methods/indexing-methods.ts';
export type { WithIndices } from './tensor/methods/reduction-methods.ts';
export type { HistogramOptions } from './tensor/reduce/count.ts';
export type { NormOptions } from './tensor/reduce/norm.ts';
export type { SortOptions, TopKOptions } from './tensor/reduce/order.ts';
export type { IndexPutOptions } from './tensor/indexing/put.ts';
export type { Index } from './tensor/indexing/at.ts';
export { slice, type Slice } from './tensor/indexing/slice.ts';
export { einsum } from './tensor/products/einsum.ts';
export { cdist, type CdistOptions } from './tensor/products/cdist.ts';
export { formatLayout } from './layout/layout.ts';
export type { RoundingMode } from './tensor/arithmetic.ts';
export type { ReduceOptions, VarianceOptions } from './tensor/reductions.ts';
export {
  concat,
  fromArray,
  fromData,
  full,
  fullLike,
  ones,
  onesLike,
  stack,
  tensor,
  zeros,
  zerosLike,
  type NestedNumbers,
  type TensorOptions,
} from './tensor/create.ts';
export { fromHostArray } from './tensor/from-host-array.ts';
export { dynamic, type DynamicOptions } from './tensor/dynamic.ts';
export { arange, eye, linspace, meshgrid, type MeshgridOptions } from './tensor/create-ranges.ts';
export {
  rand,
  randint,
  randLike,
  randn,
  randnLike,
  randperm,
  type RandomOptions,
} from './random/create-random.ts';
export type { HostData } from './tensor/host-data.ts';
export { isGradEnabled, noGrad } from './graph/create-node.ts';
export { autocast, type AutocastOptions } from './graph/autocast.ts';
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
export { allGatherRows, exchangeRows, type RowExchange } from './tensor/row-exchange.ts';
export { setRank, type Rank } from './rank.ts';
export { LineMesh } from './mesh.ts';
export { statistics, subscribe, varyingSizes } from './timeline.ts';
export type { Statistics, TimelineEvent, VaryingSize } from './timeline-event.ts';
export { activationBytes } from './tensor/activation-bytes.ts';
export {
  flopsProfiler,
  FlopsProfiler,
  type FlopsProfilerOptions,
  type ProfiledModel,
} from './nn/profile/flops-profiler.ts';
export { getModelProfile, type ModelProfileOptions } from './nn/profile/get-model-profile.ts';
export type { ModelProfile, ModuleProfile } from './nn/profile/model-profile.ts';
export type { Phase } from './nn/profile/graph-places.ts';
export type { Work } from './nn/profile/graph-ledger.ts';
export type { FlopConvention } from './nn/profile/flop-rules.ts';
export type { HostArray, HostArrays } from './serialization/host-array.ts';
export {
  decodeSafetensors,
  encodeSafetensors,
  type SafetensorsContents,
} from './serialization/safetensors.ts';
export { hostPages, type Page, type PageStore } from './paging/page.ts';
export { Generator } from './random/generator.ts';
export type { GeneratorState } from './random/generator-state.ts';
export {
  defaultGenerator,
  manualSeed,
  randomState,
  setRandomState,
  type RandomState,
} from './random/keys.ts';
export * from './spec/errors.ts';
export type { DType, Shape } from './spec/dtype.ts';
export type { Backend } from './spec/backend.ts';
export type { Layout } from './spec/layout.ts';
export type { Mesh, MeshAxis } from './spec/mesh.ts';
export type {
  CallOptions,
  InputOptions,
  ProcessGroup,
  ReduceOp,
  TypedBytes,
} from './spec/process-group.ts';
export type { Sampler } from './spec/sampler.ts';
export type { Store } from './spec/store.ts';
export type {
  BufferSpec,
  CollectivePlan,
  Model,
  ModelDivision,
  ModelSpec,
  ParallelModel,
  ParameterPlan,
  ParameterSpec,
  Plan,
  PlanStep,
  Strategy,
} from './spec/strategy.ts';
export type { Transport, TransportFactory, TransportFactoryContext } from './spec/transport.ts';
