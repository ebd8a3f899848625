// The group `profiler`: what a program did, and what it took.
export {
  activationBytes,
  type FlopConvention,
  flopsProfiler,
  FlopsProfiler,
  type FlopsProfilerOptions,
  getModelProfile,
  type ModelProfile,
  type ModelProfileOptions,
  type ModuleProfile,
  type Phase,
  type ProfiledModel,
  statistics,
  type Statistics,
  subscribe,
  type TimelineEvent,
  type VaryingSize,
  varyingSizes,
  type Work,
} from '@shardwise/core';
export { profile, type StepRecording } from '../profile/profile.ts';
export type { ProfileOptions } from '../profile/profile-options.ts';
export { type ProfilerAction, schedule, type ScheduleOptions } from '../profile/schedule.ts';
export type {
  ProfileRow,
  ProfileWait,
  RankProfile,
  Roofline,
  StepProfile,
} from '../run-state/rank-profile.ts';
export {
  canRecordCalls,
  type FlightDump,
  type FlightEntry,
  type FlightFailure,
  type FlightFrame,
  type FlightGroup,
  type FlightMessage,
  FlightRecorder,
  type FlightRecorderOptions,
  type FlightSplits,
  type FlightState,
  type FlightStatus,
  recordCalls,
} from '@shardwise/collectives';
export {
  CommsLogger,
  commsLogger,
  type CommsLoggerOptions,
  type LogSummaryOptions,
} from '../communication/comms-logger.ts';
export type { AwaitedRank, CommsRow, CommsSummary } from '../communication/comms-summary.ts';
export {
  MemoryTimeline,
  memoryTimeline,
  type MemoryTimelineOptions,
} from '../memory/memory-timeline.ts';
export {
  compareMemory,
  type ComparedBlock,
  type MemoryComparison,
} from '../memory/compare-memory.ts';
export { memoryPage } from '../memory/memory-page.ts';
export {
  type PlannedBlock,
  plannedMemory,
  type PlannedMemory,
  type PlannedMemoryOptions,
} from '../memory/planned-memory.ts';
export type { MemoryBlock, MemoryCategory, MemoryProfile } from '../memory/memory-profile.ts';
