export {
  abortThreadsWorld,
  createThreadsWorld,
  type ThreadsWorld,
} from './threads/threads-world.ts';
export { joinThreadsWorld, type JoinThreadsOptions } from './threads/join-threads-world.ts';
export type { MemoryRegion, WorldOptions } from './shared-memory/world-size.ts';
export type { SharedMemoryGroup } from './shared-memory/shared-memory-group.ts';
export type { CountedOperation, Counters, OperationCount } from './call/counters.ts';
export { unavailableGroup } from './unavailable-group.ts';
export { singleGroup } from './single-group.ts';
export { createGroup, type CreateGroupOptions } from './group/create-group.ts';
export type { AlgorithmRule, AlgorithmTable } from './group/selection/algorithm-table.ts';
export {
  createLoopbackTransports,
  type LoopbackTransport,
  type Traffic,
} from './transports/loopback.ts';
export {
  hostedTransport,
  type HostedTransportOptions,
} from './transports/hosted/hosted-transport.ts';
export { type ShapedTransport, type ShapeOptions, shapeTransport } from './transports/shaped.ts';
// What the authors of transports need beside the interface.
export {
  abortCauseOf,
  abortedByError,
  messageLengthError,
  peerClosedError,
  peerLostError,
} from '@shardwise/core/spec';
export type { WatchedTransport } from './transports/watched-transport.ts';
export { portTransport, type PortTransportOptions } from './browser/port-transport.ts';
export { connectPorts, type ConnectedPorts } from './browser/connect-ports.ts';
export { createPageWorld, type PageRank, type PageWorld } from './browser/page-world.ts';
export { joinPageWorld } from './browser/join-page-world.ts';
export { limitCalls } from './call/limit-calls.ts';
export { type CallListener, observeCalls, type ObservedCall } from './recorder/observe-calls.ts';
export type { ObservedGroup } from './call/call-observer.ts';
export { canRecordCalls, recordCalls } from './recorder/record-calls.ts';
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
export { allGatherObject, gatherObject } from './operations/gather-object.ts';
export { broadcastObject } from './operations/broadcast-object.ts';
export { scatterObject } from './operations/scatter-object.ts';
export { recvObject, sendObject } from './operations/send-recv-object.ts';
export type { ObjectOptions } from './operations/object-message.ts';
export type { PlainData, TypedArray } from './operations/object-data.ts';
export { monitoredBarrier, type MonitoredBarrierOptions } from './operations/monitored-barrier.ts';
export {
  allGatherCoalesced,
  allReduceCoalesced,
  broadcastCoalesced,
  reduceScatterCoalesced,
} from './operations/coalesced-calls.ts';
export { batchSendRecv, type SendOrRecv } from './operations/batch-send-recv.ts';
export { newGroup, newGroups } from './operations/new-groups.ts';
export { createMesh } from './mesh/create-mesh.ts';
export { meshFromHosts, type HostMeshOptions } from './mesh/mesh-from-hosts.ts';
export { meshOrder } from './mesh/mesh-order.ts';
export { MeshRanks } from './mesh/mesh-ranks.ts';
export type { DeviceMesh } from './mesh/device-mesh.ts';
