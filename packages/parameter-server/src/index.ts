// The strategy of workers.
export { parameterServer, type ParameterServerStrategyOptions } from './client/parameter-server.ts';
export { serveParameters, type ServeParameters } from './client/serve-parameters.ts';
export type {
  BackupWorkers,
  BoundedStaleness,
  Consistency,
  ConsistencyRule,
  ElasticAveraging,
} from './protocol/consistency.ts';
// Tables that only servers keep.
export { ServerTable, type ServerTableOptions, type TableTraffic } from './table/server-table.ts';
// A server.
export {
  createParameterServer,
  type ParameterServer,
  type ParameterServerOptions,
} from './server/create-parameter-server.ts';
export type { OptimizerTable, ServedOptimizer } from './server/stored-parameters.ts';
export type { ShardStatistics } from './server/shard-statistics.ts';
export type { SnapshotStore } from './server/snapshot-keeper.ts';
export { VectorClock } from './server/vector-clock.ts';
export type { OpenRows, RowStore } from './table/row-store.ts';
export type { TableStatistics } from './table/served-table.ts';
export type { ParameterServers, ServerStep } from './protocol/parameter-servers.ts';
// Which server has which keys.
export { type KeyRange, keyRanges, rowRange } from './protocol/key-ranges.ts';
