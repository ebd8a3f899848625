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
  collectivesOf,
  type ModelPlan,
  type PassHooks,
  PlanContext,
  PlannedModel,
  type PlannedModelWithLoss,
  requireAxis,
  requireOneStep,
  Step,
  type StepKey,
  type StepKind,
  steps,
  stepsOf,
} from '@shardwise/strategies';
