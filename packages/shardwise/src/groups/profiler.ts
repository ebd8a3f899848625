// The group `profiler`: what a program did, and what it took.
export {
  activationBytes,
  statistics,
  type Statistics,
  subscribe,
  type TimelineEvent,
  type VaryingSize,
  varyingSizes,
} from '@shardwise/core';
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
