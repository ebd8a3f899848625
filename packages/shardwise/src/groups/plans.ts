// The group `dist.plans`: what authors of strategies use. A strategy makes a plan, and the steps of the plan change the
// model.
export type {
  BufferSpec,
  CollectivePlan,
  ModelSpec,
  ParameterPlan,
  ParameterSpec,
  PlanStep,
} from '@shardwise/core';
export {
  applyPlan,
  type WholeReducer,
  type ShardingRequest,
  type PartReducer,
  type NamedParameters,
  type MergedStep,
  type BroadcastsBuffers,
  type BatchAxes,
  type AxisUse,
  collectivesOf,
  type ModelPlan,
  type PassHooks,
  type PlanContext,
  PlannedModel,
  type PlannedModelWithLoss,
  requireAxis,
  requireOneStep,
  Step,
  type StepKey,
  type StepKind,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
