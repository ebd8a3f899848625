// Old names of what is in the group `dist.layout` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type ActivationLayout = Moved<'dist.layout.ActivationLayout'>;
/** @deprecated */ export type ActivationSharding = Moved<'dist.layout.ActivationSharding'>;
/** @deprecated */ export type AxisLayout = Moved<'dist.layout.AxisLayout'>;
/** @deprecated */ export type CollectiveCounts = Moved<'dist.layout.CollectiveCounts'>;
/** @deprecated */ export const collectivesOfMove: Moved<'dist.layout.collectivesOfMove'> =
  /* @__PURE__ */ moved('dist.layout.collectivesOfMove');
/** @deprecated */ export const countCollectives: Moved<'dist.layout.countCollectives'> =
  /* @__PURE__ */ moved('dist.layout.countCollectives');
/** @deprecated */ export type DimSharding = Moved<'dist.layout.DimSharding'>;
/** @deprecated */ export const distributeTensor: Moved<'dist.layout.distributeTensor'> =
  /* @__PURE__ */ moved('dist.layout.distributeTensor');
/** @deprecated */ export const formatLayout: Moved<'dist.layout.formatLayout'> =
  /* @__PURE__ */ moved('dist.layout.formatLayout');
/** @deprecated */ export const formatRedistribution: Moved<'dist.layout.formatRedistribution'> =
  /* @__PURE__ */ moved('dist.layout.formatRedistribution');
/** @deprecated */ export const fromLocal: Moved<'dist.layout.fromLocal'> =
  /* @__PURE__ */ moved('dist.layout.fromLocal');
/** @deprecated */ export type Layout = Moved<'dist.layout.Layout'>;
/** @deprecated */ export const layoutOf: Moved<'dist.layout.layoutOf'> =
  /* @__PURE__ */ moved('dist.layout.layoutOf');
/** @deprecated */ export const moveOver: Moved<'dist.layout.moveOver'> =
  /* @__PURE__ */ moved('dist.layout.moveOver');
/** @deprecated */ export const planRedistribution: Moved<'dist.layout.planRedistribution'> =
  /* @__PURE__ */ moved('dist.layout.planRedistribution');
/** @deprecated */ export const redistribute: Moved<'dist.layout.redistribute'> =
  /* @__PURE__ */ moved('dist.layout.redistribute');
/** @deprecated */ export const redistributeOver: Moved<'dist.layout.redistributeOver'> =
  /* @__PURE__ */ moved('dist.layout.redistributeOver');
/** @deprecated */ export type RedistributionMove = Moved<'dist.layout.RedistributionMove'>;
/** @deprecated */ export type RedistributionPlan = Moved<'dist.layout.RedistributionPlan'>;
/** @deprecated */ export type RedistributionStep = Moved<'dist.layout.RedistributionStep'>;
/** @deprecated */ export const shard: Moved<'dist.layout.shard'> =
  /* @__PURE__ */ moved('dist.layout.shard');
/** @deprecated */ export type Sharding = Moved<'dist.layout.Sharding'>;
/** @deprecated */ export type VisualizeOptions = Moved<'dist.layout.VisualizeOptions'>;
/** @deprecated */ export const visualizeSharding: Moved<'dist.layout.visualizeSharding'> =
  /* @__PURE__ */ moved('dist.layout.visualizeSharding');
