// Old names of what is in the group `dist.plans` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const applyPlan: Moved<'dist.plans.applyPlan'> =
  /* @__PURE__ */ moved('dist.plans.applyPlan');
/** @deprecated */ export type BufferSpec = Moved<'dist.plans.BufferSpec'>;
/** @deprecated */ export type CollectivePlan = Moved<'dist.plans.CollectivePlan'>;
/** @deprecated */ export const collectivesOf: Moved<'dist.plans.collectivesOf'> =
  /* @__PURE__ */ moved('dist.plans.collectivesOf');
/** @deprecated */ export type ModelPlan = Moved<'dist.plans.ModelPlan'>;
/** @deprecated */ export type ModelSpec = Moved<'dist.plans.ModelSpec'>;
/** @deprecated */ export type ParameterPlan = Moved<'dist.plans.ParameterPlan'>;
/** @deprecated */ export type ParameterSpec = Moved<'dist.plans.ParameterSpec'>;
/** @deprecated */ export type PassHooks = Moved<'dist.plans.PassHooks'>;
/** @deprecated */ export type PlanContext = Moved<'dist.plans.PlanContext'>;
/** @deprecated */ export const PlannedModel: Moved<'dist.plans.PlannedModel'> =
  /* @__PURE__ */ moved('dist.plans.PlannedModel');
/** @deprecated */ export type PlannedModelWithLoss = Moved<'dist.plans.PlannedModelWithLoss'>;
/** @deprecated */ export type PlanStep = Moved<'dist.plans.PlanStep'>;
/** @deprecated */ export const Step: Moved<'dist.plans.Step'> =
  /* @__PURE__ */ moved('dist.plans.Step');
/** @deprecated */ export type StepKey = Moved<'dist.plans.StepKey'>;
/** @deprecated */ export type StepKind = Moved<'dist.plans.StepKind'>;
/** @deprecated */ export const steps: Moved<'dist.plans.stepKinds'> =
  /* @__PURE__ */ moved('dist.plans.stepKinds');
/** @deprecated */ export const stepsOf: Moved<'dist.plans.stepsOf'> =
  /* @__PURE__ */ moved('dist.plans.stepsOf');
