// Old names of what is in the group `profiler` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export const activationBytes: Moved<'profiler.activationBytes'> =
  /* @__PURE__ */ moved('profiler.activationBytes');
/** @deprecated */ export const canRecordCalls: Moved<'profiler.canRecordCalls'> =
  /* @__PURE__ */ moved('profiler.canRecordCalls');
/** @deprecated */ export type FlightDump = Moved<'profiler.FlightDump'>;
/** @deprecated */ export type FlightEntry = Moved<'profiler.FlightEntry'>;
/** @deprecated */ export type FlightFailure = Moved<'profiler.FlightFailure'>;
/** @deprecated */ export type FlightFrame = Moved<'profiler.FlightFrame'>;
/** @deprecated */ export type FlightGroup = Moved<'profiler.FlightGroup'>;
/** @deprecated */ export type FlightMessage = Moved<'profiler.FlightMessage'>;
/** @deprecated */ export const FlightRecorder: Moved<'profiler.FlightRecorder'> =
  /* @__PURE__ */ moved('profiler.FlightRecorder');
/** @deprecated */ export type FlightRecorderOptions = Moved<'profiler.FlightRecorderOptions'>;
/** @deprecated */ export type FlightSplits = Moved<'profiler.FlightSplits'>;
/** @deprecated */ export type FlightState = Moved<'profiler.FlightState'>;
/** @deprecated */ export type FlightStatus = Moved<'profiler.FlightStatus'>;
/** @deprecated */ export const recordCalls: Moved<'profiler.recordCalls'> =
  /* @__PURE__ */ moved('profiler.recordCalls');
/** @deprecated */ export const statistics: Moved<'profiler.statistics'> =
  /* @__PURE__ */ moved('profiler.statistics');
/** @deprecated */ export type Statistics = Moved<'profiler.Statistics'>;
/** @deprecated */ export const subscribe: Moved<'profiler.subscribe'> =
  /* @__PURE__ */ moved('profiler.subscribe');
/** @deprecated */ export type TimelineEvent = Moved<'profiler.TimelineEvent'>;
/** @deprecated */ export type VaryingSize = Moved<'profiler.VaryingSize'>;
/** @deprecated */ export const varyingSizes: Moved<'profiler.varyingSizes'> =
  /* @__PURE__ */ moved('profiler.varyingSizes');
