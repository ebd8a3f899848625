// Old names of what is in the group `dist.servers` now.
import { moved, type Moved } from './moved.ts';

/** @deprecated */ export type BackupWorkers = Moved<'dist.servers.BackupWorkers'>;
/** @deprecated */ export type BoundedStaleness = Moved<'dist.servers.BoundedStaleness'>;
/** @deprecated */ export type Consistency = Moved<'dist.servers.Consistency'>;
/** @deprecated */ export type ConsistencyRule = Moved<'dist.servers.ConsistencyRule'>;
/** @deprecated */ export const createParameterServer: Moved<'dist.servers.createParameterServer'> =
  /* @__PURE__ */ moved('dist.servers.createParameterServer');
/** @deprecated */ export type ElasticAveraging = Moved<'dist.servers.ElasticAveraging'>;
/** @deprecated */ export type KeyRange = Moved<'dist.servers.KeyRange'>;
/** @deprecated */ export const keyRanges: Moved<'dist.servers.keyRanges'> =
  /* @__PURE__ */ moved('dist.servers.keyRanges');
/** @deprecated */ export type OpenRows = Moved<'dist.servers.OpenRows'>;
/** @deprecated */ export type OptimizerTable = Moved<'dist.servers.OptimizerTable'>;
/** @deprecated */ export type ParameterServer = Moved<'dist.servers.ParameterServer'>;
/** @deprecated */ export type ParameterServerOptions =
  Moved<'dist.servers.ParameterServerOptions'>;
/** @deprecated */ export type ParameterServers = Moved<'dist.servers.ParameterServers'>;
/** @deprecated */ export const rowRange: Moved<'dist.servers.rowRange'> =
  /* @__PURE__ */ moved('dist.servers.rowRange');
/** @deprecated */ export type RowStore = Moved<'dist.servers.RowStore'>;
/** @deprecated */ export type ServedOptimizer = Moved<'dist.servers.ServedOptimizer'>;
/** @deprecated */ export const ServerTable: Moved<'dist.servers.ServerTable'> =
  /* @__PURE__ */ moved('dist.servers.ServerTable');
/** @deprecated */ export type ServerTableOptions = Moved<'dist.servers.ServerTableOptions'>;
/** @deprecated */ export type ShardStatistics = Moved<'dist.servers.ShardStatistics'>;
/** @deprecated */ export type SnapshotStore = Moved<'dist.servers.SnapshotStore'>;
/** @deprecated */ export type TableStatistics = Moved<'dist.servers.TableStatistics'>;
/** @deprecated */ export type TableTraffic = Moved<'dist.servers.TableTraffic'>;
/** @deprecated */ export const VectorClock: Moved<'dist.servers.VectorClock'> =
  /* @__PURE__ */ moved('dist.servers.VectorClock');
