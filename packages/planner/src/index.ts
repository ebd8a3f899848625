export { namedCluster, deviceNames } from './cluster/catalogue.ts';
export {
  type ClusterDescription,
  type ClusterLink,
  deviceCount,
  type DeviceDescription,
  type Efficiency,
  readCluster,
} from './cluster/cluster.ts';
export { memoryKinds, type PlannedMemory, plannedMemory, type RankMemory } from './cost/memory.ts';
export { predict, type Prediction } from './cost/predict.ts';
export {
  layoutText,
  microbatchesOf,
  type Offload,
  oneDevice,
  ranksOf,
  type RunLayout,
  type Workload,
} from './cost/run-layout.ts';
export {
  secondsOf,
  stepTermNames,
  type StepTerms,
  stepTerms,
  stepTermsOf,
} from './cost/step-time.ts';
export { accelerateTable, type AccelerateTableOptions } from './estimates/accelerate-table.ts';
export { type DeepSpeedTableOptions, zero2Table, zero3Table } from './estimates/deepspeed-table.ts';
export {
  type ActivationShape,
  firstStageShare,
  layerActivationBytes,
  logitBytes,
  type Recompute,
} from './model/activations.ts';
export { describeConfig } from './model/describe-config.ts';
export { describeModule } from './model/describe-module.ts';
export {
  describeConvention,
  type FlopsConvention,
  flopsPerRow,
  flopsPerToken,
  type Utilization,
} from './model/flops.ts';
export {
  type ModelDescription,
  type ModulesDescription,
  parameterCount,
} from './model/model-description.ts';
export { modelNames, namedModel } from './model/named-models.ts';
export {
  type Precision,
  precisions,
  type StateBytes,
  statesOnRank,
  sumOfStates,
  type ZeroStage,
} from './model/states.ts';
export {
  type ExpertsDescription,
  type TransformerDescription,
  type TransformerParameters,
  transformer,
  type TransformerSizes,
} from './model/transformer.ts';
export type { Change } from './search/changes.ts';
export type { PrunedLayouts, SearchResult } from './search/found-layouts.ts';
export {
  chooseLayerStrategies,
  type LayerChoice,
  type LayerStrategies,
} from './search/layer-strategies.ts';
export { type OffloadedActivations, offloadedActivations } from './search/offloaded-activations.ts';
export { planText } from './search/plan-text.ts';
export { planTraining, type TrainingPlan } from './search/plan-training.ts';
export { scriptLines } from './search/script-lines.ts';
export type { Goal, PlanTrainingOptions } from './search/search-request.ts';
export type { SearchSpace } from './search/search-space.ts';
export {
  dalyInterval,
  type FailureCosts,
  type FailureSimulation,
  goodputOf,
  simulateFailures,
  type SimulatedFailures,
  youngInterval,
} from './simulation/failures.ts';
export { runOfLayout } from './simulation/run-of-layout.ts';
export {
  type PlaceTimes,
  type SimulatedRun,
  type SimulatedSpan,
  type StageTimes,
  type Topology,
} from './simulation/simulated-run.ts';
export {
  firstRankOf,
  simulateRun,
  type SimulatedRank,
  type SimulateOptions,
  type Simulation,
} from './simulation/simulate-run.ts';
export { clusterFromTrace, type TracedHost } from './calibration/cluster-from-trace.ts';
export {
  deviceFromSteps,
  type MeasuredTraining,
  type ReachedRates,
} from './calibration/device-from-steps.ts';
export { errorsOf, fitConstants, foldErrors } from './calibration/least-squares.ts';
export { linkFromMessages, type MeasuredMessage } from './calibration/link-from-messages.ts';
export {
  memoryQuantities,
  type MemoryQuantities,
  memoryQuantitiesOf,
} from './calibration/memory-quantities.ts';
export {
  quantitiesOf,
  stepQuantities,
  type StepQuantities,
  stepSums,
} from './calibration/step-quantities.ts';
export { auto, type AutoCandidate, type AutoChoice, type AutoOptions } from './automatic/auto.ts';
export {
  compareStep,
  measurableTerms,
  type MeasuredStep,
  type PlannedStep,
} from './cost/compare.ts';
export type {
  ComparedFigure,
  ComparedTerm,
  FigureName,
  MeasurableTerm,
  StepComparison,
} from './cost/comparison.ts';
export { comparisonRows, comparisonText } from './cost/compared-words.ts';
