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
  type AxisUse,
  type BatchAxes,
  type BroadcastsBuffers,
  collectivesOf,
  type MergedStep,
  type ModelPlan,
  type NamedParameters,
  type PartReducer,
  type PassHooks,
  type PlanContext,
  PlannedModel,
  type PlannedModelWithLoss,
  requireAxis,
  requireOneStep,
  type ShardingRequest,
  Step,
  type StepKey,
  type StepKind,
  stepKinds,
  stepsOf,
  type WholeReducer,
} from '@shardwise/strategies';
