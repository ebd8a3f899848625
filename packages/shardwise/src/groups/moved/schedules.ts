// Old names of what is in the group `dist.schedules` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type Action = Moved<'dist.schedules.Action'>;
/** @deprecated */ export type ActivationSlot = Moved<'dist.schedules.ActivationSlot'>;
/** @deprecated */ export const activationSlots: Moved<'dist.schedules.activationSlots'> =
  /* @__PURE__ */ moved('dist.schedules.activationSlots');
/** @deprecated */ export const automaticSchedule: Moved<'dist.schedules.automaticSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.automaticSchedule');
/** @deprecated */ export type AutomaticSchedule = Moved<'dist.schedules.AutomaticSchedule'>;
/** @deprecated */ export type AutomaticScheduleOptions =
  Moved<'dist.schedules.AutomaticScheduleOptions'>;
/** @deprecated */ export const balancedPartition: Moved<'dist.schedules.balancedPartition'> =
  /* @__PURE__ */ moved('dist.schedules.balancedPartition');
/** @deprecated */ export const checkLoweredSchedule: Moved<'dist.schedules.checkLoweredSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.checkLoweredSchedule');
/** @deprecated */ export const checkSchedule: Moved<'dist.schedules.checkSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.checkSchedule');
/** @deprecated */ export type ComputeAction = Moved<'dist.schedules.ComputeAction'>;
/** @deprecated */ export type ComputeKind = Moved<'dist.schedules.ComputeKind'>;
/** @deprecated */ export const countModelCosts: Moved<'dist.schedules.countModelCosts'> =
  /* @__PURE__ */ moved('dist.schedules.countModelCosts');
/** @deprecated */ export const evaluationOf: Moved<'dist.schedules.evaluationOf'> =
  /* @__PURE__ */ moved('dist.schedules.evaluationOf');
/** @deprecated */ export const explainSchedule: Moved<'dist.schedules.explainSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.explainSchedule');
/** @deprecated */ export const formatAction: Moved<'dist.schedules.formatAction'> =
  /* @__PURE__ */ moved('dist.schedules.formatAction');
/** @deprecated */ export type LayerCosts = Moved<'dist.schedules.LayerCosts'>;
/** @deprecated */ export type LinkCosts = Moved<'dist.schedules.LinkCosts'>;
/** @deprecated */ export type LoweredSchedule = Moved<'dist.schedules.LoweredSchedule'>;
/** @deprecated */ export type LowerOptions = Moved<'dist.schedules.LowerOptions'>;
/** @deprecated */ export const lowerSchedule: Moved<'dist.schedules.lowerSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.lowerSchedule');
/** @deprecated */ export const measureModelCosts: Moved<'dist.schedules.measureModelCosts'> =
  /* @__PURE__ */ moved('dist.schedules.measureModelCosts');
/** @deprecated */ export type ModelCosts = Moved<'dist.schedules.ModelCosts'>;
/** @deprecated */ export type ModelCostsOptions = Moved<'dist.schedules.ModelCostsOptions'>;
/** @deprecated */ export type ModuleCosts = Moved<'dist.schedules.ModuleCosts'>;
/** @deprecated */ export type OverlapAction = Moved<'dist.schedules.OverlapAction'>;
/** @deprecated */ export const pipelineSchedule: Moved<'dist.schedules.pipelineSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.pipelineSchedule');
/** @deprecated */ export type RankSimulation = Moved<'dist.schedules.RankSimulation'>;
/** @deprecated */ export type RankSlots = Moved<'dist.schedules.RankSlots'>;
/** @deprecated */ export const readLoweredSchedule: Moved<'dist.schedules.readLoweredSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.readLoweredSchedule');
/** @deprecated */ export const readSchedule: Moved<'dist.schedules.readSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.readSchedule');
/** @deprecated */ export type ReadScheduleOptions = Moved<'dist.schedules.ReadScheduleOptions'>;
/** @deprecated */ export type Schedule = Moved<'dist.schedules.Schedule'>;
/** @deprecated */ export type ScheduleCosts = Moved<'dist.schedules.ScheduleCosts'>;
/** @deprecated */ export type ScheduledAction = Moved<'dist.schedules.ScheduledAction'>;
/** @deprecated */ export type ScheduleName = Moved<'dist.schedules.ScheduleName'>;
/** @deprecated */ export const scheduleNames: Moved<'dist.schedules.scheduleNames'> =
  /* @__PURE__ */ moved('dist.schedules.scheduleNames');
/** @deprecated */ export type ScheduleShape = Moved<'dist.schedules.ScheduleShape'>;
/** @deprecated */ export type ScheduleSimulation = Moved<'dist.schedules.ScheduleSimulation'>;
/** @deprecated */ export const simulateSchedule: Moved<'dist.schedules.simulateSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.simulateSchedule');
/** @deprecated */ export type StageAction = Moved<'dist.schedules.StageAction'>;
/** @deprecated */ export type StageCosts = Moved<'dist.schedules.StageCosts'>;
/** @deprecated */ export type StageEdge = Moved<'dist.schedules.StageEdge'>;
/** @deprecated */ export type StageKind = Moved<'dist.schedules.StageKind'>;
/** @deprecated */ export type TimedAction = Moved<'dist.schedules.TimedAction'>;
/** @deprecated */ export type TransferAction = Moved<'dist.schedules.TransferAction'>;
/** @deprecated */ export type TransferKind = Moved<'dist.schedules.TransferKind'>;
/** @deprecated */ export const visualizeSchedule: Moved<'dist.schedules.visualizeSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.visualizeSchedule');
/** @deprecated */ export type VisualizeScheduleOptions =
  Moved<'dist.schedules.VisualizeScheduleOptions'>;
/** @deprecated */ export const writeSchedule: Moved<'dist.schedules.writeSchedule'> =
  /* @__PURE__ */ moved('dist.schedules.writeSchedule');
