export { createThreadsWorld, type ThreadsWorld } from './threads/world.ts';
export type { MemoryRegion } from './shared-memory/world-size.ts';
export { joinThreadsWorld } from './threads/join-threads-world.ts';
export { abortThreadsWorld } from './threads/abort-threads-world.ts';
export type { SharedMemoryGroup } from './shared-memory/shared-memory-group.ts';
export type { CountedOperation, Counters, OperationCount } from './call/counters.ts';
export { singleGroup } from './single-group.ts';
export { createGroup, type CreateGroupOptions } from './group/create-group.ts';
export {
  createLoopbackTransports,
  type LoopbackTransport,
  type Traffic,
} from './transports/loopback.ts';
export { peerClosedError } from './call/failure.ts';
export { recordCalls } from './recorder/record-calls.ts';
export { FlightRecorder, type FlightRecorderOptions } from './recorder/flight-recorder.ts';
export type {
  FlightDump,
  FlightEntry,
  FlightFailure,
  FlightFrame,
  FlightGroup,
  FlightMessage,
  FlightSplits,
  FlightState,
  FlightStatus,
} from './recorder/flight-dump.ts';
export type { Operation } from './call/record.ts';
