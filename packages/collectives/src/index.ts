export { createThreadsWorld, type MemoryRegion, type ThreadsWorld } from './threads/world.ts';
export { joinThreadsWorld } from './threads/join-threads-world.ts';
export { abortThreadsWorld } from './threads/abort-threads-world.ts';
export type { ThreadsProcessGroup } from './threads/threads-process-group.ts';
export type { CountedOperation, Counters, OperationCount } from './call/counters.ts';
export { singleGroup } from './single-group.ts';
export { createGroup, type CreateGroupOptions } from './group/create-group.ts';
export {
  createLoopbackTransports,
  type LoopbackTransport,
  type Traffic,
} from './transports/loopback.ts';
export { peerClosedError } from './call/failure.ts';
