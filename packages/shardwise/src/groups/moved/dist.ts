// Old names of what is in the group `dist` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type AlgorithmRule = Moved<'dist.AlgorithmRule'>;
/** @deprecated */ export type AlgorithmTable = Moved<'dist.AlgorithmTable'>;
/** @deprecated */ export const allGather: Moved<'dist.allGather'> =
  /* @__PURE__ */ moved('dist.allGather');
/** @deprecated */ export const allGatherCoalesced: Moved<'dist.allGatherCoalesced'> =
  /* @__PURE__ */ moved('dist.allGatherCoalesced');
/** @deprecated */ export const allGatherObject: Moved<'dist.allGatherObject'> =
  /* @__PURE__ */ moved('dist.allGatherObject');
/** @deprecated */ export const allGatherRows: Moved<'dist.allGatherRows'> =
  /* @__PURE__ */ moved('dist.allGatherRows');
/** @deprecated */ export const allReduce: Moved<'dist.allReduce'> =
  /* @__PURE__ */ moved('dist.allReduce');
/** @deprecated */ export const allReduceCoalesced: Moved<'dist.allReduceCoalesced'> =
  /* @__PURE__ */ moved('dist.allReduceCoalesced');
/** @deprecated */ export const allToAll: Moved<'dist.allToAll'> =
  /* @__PURE__ */ moved('dist.allToAll');
/** @deprecated */ export const batchSendRecv: Moved<'dist.batchSendRecv'> =
  /* @__PURE__ */ moved('dist.batchSendRecv');
/** @deprecated */ export const bf16CompressHook: Moved<'dist.bf16CompressHook'> =
  /* @__PURE__ */ moved('dist.bf16CompressHook');
/** @deprecated */ export const broadcast: Moved<'dist.broadcast'> =
  /* @__PURE__ */ moved('dist.broadcast');
/** @deprecated */ export const broadcastCoalesced: Moved<'dist.broadcastCoalesced'> =
  /* @__PURE__ */ moved('dist.broadcastCoalesced');
/** @deprecated */ export const broadcastObject: Moved<'dist.broadcastObject'> =
  /* @__PURE__ */ moved('dist.broadcastObject');
/** @deprecated */ export const byLayer: Moved<'dist.byLayer'> =
  /* @__PURE__ */ moved('dist.byLayer');
/** @deprecated */ export type CallOptions = Moved<'dist.CallOptions'>;
/** @deprecated */ export type Cluster = Moved<'dist.Cluster'>;
/** @deprecated */ export type CommHook = Moved<'dist.CommHook'>;
/** @deprecated */ export const compose: Moved<'dist.compose'> =
  /* @__PURE__ */ moved('dist.compose');
/** @deprecated */ export const constructSharded: Moved<'dist.constructSharded'> =
  /* @__PURE__ */ moved('dist.constructSharded');
/** @deprecated */ export type CountedOperation = Moved<'dist.CountedOperation'>;
/** @deprecated */ export type Counters = Moved<'dist.Counters'>;
/** @deprecated */ export const createGroup: Moved<'dist.createGroup'> =
  /* @__PURE__ */ moved('dist.createGroup');
/** @deprecated */ export type CreateGroupOptions = Moved<'dist.CreateGroupOptions'>;
/** @deprecated */ export const createMesh: Moved<'dist.createMesh'> =
  /* @__PURE__ */ moved('dist.createMesh');
/** @deprecated */ export const dataParallel: Moved<'dist.dataParallel'> =
  /* @__PURE__ */ moved('dist.dataParallel');
/** @deprecated */ export type DataParallelOptions = Moved<'dist.DataParallelOptions'>;
/** @deprecated */ export const ddp: Moved<'dist.ddp'> = /* @__PURE__ */ moved('dist.ddp');
/** @deprecated */ export type DeviceMesh = Moved<'dist.DeviceMesh'>;
/** @deprecated */ export type DistributedDataParallelOptions =
  Moved<'dist.DistributedDataParallelOptions'>;
/** @deprecated */ export const estimateZero2: Moved<'dist.estimateZero2'> =
  /* @__PURE__ */ moved('dist.estimateZero2');
/** @deprecated */ export const estimateZero3: Moved<'dist.estimateZero3'> =
  /* @__PURE__ */ moved('dist.estimateZero3');
/** @deprecated */ export const exchangeRows: Moved<'dist.exchangeRows'> =
  /* @__PURE__ */ moved('dist.exchangeRows');
/** @deprecated */ export const expertParallel: Moved<'dist.expertParallel'> =
  /* @__PURE__ */ moved('dist.expertParallel');
/** @deprecated */ export type ExpertParallelOptions = Moved<'dist.ExpertParallelOptions'>;
/** @deprecated */ export const explain: Moved<'dist.explain'> =
  /* @__PURE__ */ moved('dist.explain');
/** @deprecated */ export type ExplainOptions = Moved<'dist.ExplainOptions'>;
/** @deprecated */ export const f16CompressHook: Moved<'dist.f16CompressHook'> =
  /* @__PURE__ */ moved('dist.f16CompressHook');
/** @deprecated */ export const fsdp: Moved<'dist.fsdp'> = /* @__PURE__ */ moved('dist.fsdp');
/** @deprecated */ export type FullyShardedDataParallelOptions =
  Moved<'dist.FullyShardedDataParallelOptions'>;
/** @deprecated */ export const gatherForMetrics: Moved<'dist.gatherForMetrics'> =
  /* @__PURE__ */ moved('dist.gatherForMetrics');
/** @deprecated */ export type GatherForMetricsOptions = Moved<'dist.GatherForMetricsOptions'>;
/** @deprecated */ export const gatherObject: Moved<'dist.gatherObject'> =
  /* @__PURE__ */ moved('dist.gatherObject');
/** @deprecated */ export type GradBucket = Moved<'dist.GradBucket'>;
/** @deprecated */ export type HostMeshOptions = Moved<'dist.HostMeshOptions'>;
/** @deprecated */ export const hostPages: Moved<'dist.hostPages'> =
  /* @__PURE__ */ moved('dist.hostPages');
/** @deprecated */ export type InputOptions = Moved<'dist.InputOptions'>;
/** @deprecated */ export const join: Moved<'dist.join'> = /* @__PURE__ */ moved('dist.join');
/** @deprecated */ export type Joinable = Moved<'dist.Joinable'>;
/** @deprecated */ export const joinBatches: Moved<'dist.joinBatches'> =
  /* @__PURE__ */ moved('dist.joinBatches');
/** @deprecated */ export type JoinContext = Moved<'dist.JoinContext'>;
/** @deprecated */ export type JoinedBatch = Moved<'dist.JoinedBatch'>;
/** @deprecated */ export type JoinedStep = Moved<'dist.JoinedStep'>;
/** @deprecated */ export type JoinHook = Moved<'dist.JoinHook'>;
/** @deprecated */ export type JoinOptions = Moved<'dist.JoinOptions'>;
/** @deprecated */ export const LineMesh: Moved<'dist.LineMesh'> =
  /* @__PURE__ */ moved('dist.LineMesh');
/** @deprecated */ export const localChunk: Moved<'dist.localChunk'> =
  /* @__PURE__ */ moved('dist.localChunk');
/** @deprecated */ export type LossWeight = Moved<'dist.LossWeight'>;
/** @deprecated */ export const memory: Moved<'dist.memory'> = /* @__PURE__ */ moved('dist.memory');
/** @deprecated */ export type MemoryOptions = Moved<'dist.MemoryOptions'>;
/** @deprecated */ export type MemoryUse = Moved<'dist.MemoryUse'>;
/** @deprecated */ export type Mesh = Moved<'dist.Mesh'>;
/** @deprecated */ export type MeshAxis = Moved<'dist.MeshAxis'>;
/** @deprecated */ export const meshFromHosts: Moved<'dist.meshFromHosts'> =
  /* @__PURE__ */ moved('dist.meshFromHosts');
/** @deprecated */ export const meshOrder: Moved<'dist.meshOrder'> =
  /* @__PURE__ */ moved('dist.meshOrder');
/** @deprecated */ export const MeshRanks: Moved<'dist.MeshRanks'> =
  /* @__PURE__ */ moved('dist.MeshRanks');
/** @deprecated */ export type MixedPrecision = Moved<'dist.MixedPrecision'>;
/** @deprecated */ export const monitoredBarrier: Moved<'dist.monitoredBarrier'> =
  /* @__PURE__ */ moved('dist.monitoredBarrier');
/** @deprecated */ export type MonitoredBarrierOptions = Moved<'dist.MonitoredBarrierOptions'>;
/** @deprecated */ export const newGroup: Moved<'dist.newGroup'> =
  /* @__PURE__ */ moved('dist.newGroup');
/** @deprecated */ export const newGroups: Moved<'dist.newGroups'> =
  /* @__PURE__ */ moved('dist.newGroups');
/** @deprecated */ export type ObjectOptions = Moved<'dist.ObjectOptions'>;
/** @deprecated */ export const OffloadedOptimizer: Moved<'dist.OffloadedOptimizer'> =
  /* @__PURE__ */ moved('dist.OffloadedOptimizer');
/** @deprecated */ export type OffloadedOptimizerOptions = Moved<'dist.OffloadedOptimizerOptions'>;
/** @deprecated */ export const onEveryRank: Moved<'dist.onEveryRank'> =
  /* @__PURE__ */ moved('dist.onEveryRank');
/** @deprecated */ export type Operation = Moved<'dist.Operation'>;
/** @deprecated */ export type OperationCount = Moved<'dist.OperationCount'>;
/** @deprecated */ export const OptimisticOptimizer: Moved<'dist.OptimisticOptimizer'> =
  /* @__PURE__ */ moved('dist.OptimisticOptimizer');
/** @deprecated */ export type OptimisticOptimizerOptions =
  Moved<'dist.OptimisticOptimizerOptions'>;
/** @deprecated */ export type OptimizerClass = Moved<'dist.OptimizerClass'>;
/** @deprecated */ export type Page = Moved<'dist.Page'>;
/** @deprecated */ export type PageStore = Moved<'dist.PageStore'>;
/** @deprecated */ export const parallelize: Moved<'dist.parallelize'> =
  /* @__PURE__ */ moved('dist.parallelize');
/** @deprecated */ export type ParallelModel = Moved<'dist.ParallelModel'>;
/** @deprecated */ export const parameterServer: Moved<'dist.parameterServer'> =
  /* @__PURE__ */ moved('dist.parameterServer');
/** @deprecated */ export type ParameterServerStrategyOptions =
  Moved<'dist.ParameterServerStrategyOptions'>;
/** @deprecated */ export const Pipe: Moved<'dist.GPipe'> = /* @__PURE__ */ moved('dist.GPipe');
/** @deprecated */ export const pipeline: Moved<'dist.pipeline'> =
  /* @__PURE__ */ moved('dist.pipeline');
/** @deprecated */ export type PipelineOptions = Moved<'dist.PipelineOptions'>;
/** @deprecated */ export type PipelineWithLoss = Moved<'dist.PipelineWithLoss'>;
/** @deprecated */ export type PipeOptions = Moved<'dist.GPipeOptions'>;
/** @deprecated */ export type PipeWithLoss = Moved<'dist.GPipeWithLoss'>;
/** @deprecated */ export type PlainData = Moved<'dist.PlainData'>;
/** @deprecated */ export type Plan = Moved<'dist.Plan'>;
/** @deprecated */ export const planFor: Moved<'dist.planFor'> =
  /* @__PURE__ */ moved('dist.planFor');
/** @deprecated */ export const planMemory: Moved<'dist.planMemory'> =
  /* @__PURE__ */ moved('dist.planMemory');
/** @deprecated */ export type PlanMemory = Moved<'dist.PlanMemory'>;
/** @deprecated */ export type PlanMemoryOptions = Moved<'dist.PlanMemoryOptions'>;
/** @deprecated */ export const powerSgdHook: Moved<'dist.powerSgdHook'> =
  /* @__PURE__ */ moved('dist.powerSgdHook');
/** @deprecated */ export type PowerSgdHook = Moved<'dist.PowerSgdHook'>;
/** @deprecated */ export type PowerSgdOptions = Moved<'dist.PowerSgdOptions'>;
/** @deprecated */ export type PowerSgdStateDict = Moved<'dist.PowerSgdStateDict'>;
/** @deprecated */ export type ProcessGroup = Moved<'dist.ProcessGroup'>;
/** @deprecated */ export const recvObject: Moved<'dist.recvObject'> =
  /* @__PURE__ */ moved('dist.recvObject');
/** @deprecated */ export const reduce: Moved<'dist.reduce'> = /* @__PURE__ */ moved('dist.reduce');
/** @deprecated */ export type ReduceOp = Moved<'dist.ReduceOp'>;
/** @deprecated */ export const reduceScatter: Moved<'dist.reduceScatter'> =
  /* @__PURE__ */ moved('dist.reduceScatter');
/** @deprecated */ export const reduceScatterCoalesced: Moved<'dist.reduceScatterCoalesced'> =
  /* @__PURE__ */ moved('dist.reduceScatterCoalesced');
/** @deprecated */ export const reinterpret: Moved<'dist.reinterpret'> =
  /* @__PURE__ */ moved('dist.reinterpret');
/** @deprecated */ export type RowExchange = Moved<'dist.RowExchange'>;
/** @deprecated */ export const scatterObject: Moved<'dist.scatterObject'> =
  /* @__PURE__ */ moved('dist.scatterObject');
/** @deprecated */ export const sendObject: Moved<'dist.sendObject'> =
  /* @__PURE__ */ moved('dist.sendObject');
/** @deprecated */ export type SendOrRecv = Moved<'dist.SendOrRecv'>;
/** @deprecated */ export const sendRecv: Moved<'dist.sendRecv'> =
  /* @__PURE__ */ moved('dist.sendRecv');
/** @deprecated */ export const singleGroup: Moved<'dist.singleGroup'> =
  /* @__PURE__ */ moved('dist.singleGroup');
/** @deprecated */ export type StatesEstimate = Moved<'dist.StatesEstimate'>;
/** @deprecated */ export type StatesFormula = Moved<'dist.StatesFormula'>;
/** @deprecated */ export const SteppedPipeline: Moved<'dist.PipelineRunner'> =
  /* @__PURE__ */ moved('dist.PipelineRunner');
/** @deprecated */ export type Store = Moved<'dist.Store'>;
/** @deprecated */ export type Strategy = Moved<'dist.Strategy'>;
/** @deprecated */ export type StrategyWithLoss = Moved<'dist.StrategyWithLoss'>;
/** @deprecated */ export const tensorParallel: Moved<'dist.tensorParallel'> =
  /* @__PURE__ */ moved('dist.tensorParallel');
/** @deprecated */ export type TensorParallelOptions = Moved<'dist.TensorParallelOptions'>;
/** @deprecated */ export const threeDimensional: Moved<'dist.threeDimensional'> =
  /* @__PURE__ */ moved('dist.threeDimensional');
/** @deprecated */ export type ThreeDimensionalOptions = Moved<'dist.ThreeDimensionalOptions'>;
/** @deprecated */ export type Transport = Moved<'dist.Transport'>;
/** @deprecated */ export const twoAndAHalfDimensional: Moved<'dist.twoAndAHalfDimensional'> =
  /* @__PURE__ */ moved('dist.twoAndAHalfDimensional');
/** @deprecated */ export type TwoAndAHalfDimensionalOptions =
  Moved<'dist.TwoAndAHalfDimensionalOptions'>;
/** @deprecated */ export const twoDimensional: Moved<'dist.twoDimensional'> =
  /* @__PURE__ */ moved('dist.twoDimensional');
/** @deprecated */ export type TwoDimensionalOptions = Moved<'dist.TwoDimensionalOptions'>;
/** @deprecated */ export type TypedArray = Moved<'dist.TypedArray'>;
/** @deprecated */ export type TypedBytes = Moved<'dist.TypedBytes'>;
/** @deprecated */ export const unavailableGroup: Moved<'dist.unavailableGroup'> =
  /* @__PURE__ */ moved('dist.unavailableGroup');
/** @deprecated */ export type UnitOf = Moved<'dist.UnitOf'>;
/** @deprecated */ export type Verdict = Moved<'dist.Verdict'>;
/** @deprecated */ export const zero: Moved<'dist.zero'> = /* @__PURE__ */ moved('dist.zero');
/** @deprecated */ export type Zero2EstimateOptions = Moved<'dist.Zero2EstimateOptions'>;
/** @deprecated */ export type Zero3EstimateOptions = Moved<'dist.Zero3EstimateOptions'>;
/** @deprecated */ export type ZeroOptions = Moved<'dist.ZeroOptions'>;
/** @deprecated */ export const ZeroRedundancyOptimizer: Moved<'dist.ZeroRedundancyOptimizer'> =
  /* @__PURE__ */ moved('dist.ZeroRedundancyOptimizer');
/** @deprecated */ export type ZeroRedundancyOptions = Moved<'dist.ZeroRedundancyOptions'>;
/** @deprecated */ export type ZeroStage = Moved<'dist.ZeroStage'>;
