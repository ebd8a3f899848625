import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  type RequestConnection,
  type RequestHandler,
} from '@shardwise/core/extend';
import { readRequest } from '../protocol/message.ts';
import { refusal } from '../protocol/refusal.ts';
import type { AnyRequest } from '../protocol/request.ts';
import { ShardHost, type ShardRole } from './shard-host.ts';
import { ShardReplica } from './shard-replica.ts';
import type { ShardStatistics } from './shard-statistics.ts';
import { Shard } from './shard.ts';
import { SnapshotKeeper, type SnapshotStore } from './snapshot-keeper.ts';
import type { OptimizerTable } from './stored-parameters.ts';
import { memoryRows, type OpenRows } from '../table/row-store.ts';
import type { TableStatistics } from '../table/served-table.ts';
import { TableHost } from '../table/table-host.ts';
import type { TableRequest } from '../protocol/request.ts';

/** Options of `createParameterServer`. */
export interface ParameterServerOptions {
  /** The number of this server, from 0. */
  readonly server: number;
  /** The number of servers. Default: 1. */
  readonly servers?: number;
  /** The optimizers that workers may ask for, by name. */
  readonly optimizers: OptimizerTable;
  /** Milliseconds that a worker may be without a connection before it counts as lost. Default: 5000. */
  readonly leaseMs?: number;
  /**
   * Milliseconds that a worker waits for others before its step fails with an error that names them. Default:
   * 600,000.
   */
  readonly waitMs?: number;
  /**
   * Connects to another server. With this, the next server has a copy of each range. Default: there are no
   * copies.
   */
  readonly connect?: (server: number) => Promise<RequestConnection>;
  /** Where snapshots of this server's range are kept. Default: there are no snapshots. */
  readonly snapshots?: SnapshotStore;
  /** The least number of milliseconds between two snapshots. Default: 10,000. */
  readonly snapshotEveryMs?: number;
  /** Where rows of tables are kept. Default: in memory. */
  readonly openRows?: OpenRows;
  /**
   * Whether this server replaces a lost one. Then it starts with the data of a snapshot or a copy. Default:
   * false.
   */
  readonly isAgain?: boolean;
  /**
   * Whether the snapshot comes from an earlier run that this run continues, possibly with other workers.
   * Default: false.
   */
  readonly resumes?: boolean;
}

const serverRules: OptionRules<ParameterServerOptions> = {
  server: option.required(option.count),
  servers: option.integer(1),
  optimizers: option.required(option.object('a table of optimizers')),
  leaseMs: option.positive,
  waitMs: option.positive,
  connect: option.callback(),
  snapshots: option.object('a store of snapshots'),
  snapshotEveryMs: option.nonNegative,
  isAgain: option.flag,
  resumes: option.flag,
  openRows: option.callback(),
};

/** A parameter server. It computes on this thread's device. */
export interface ParameterServer {
  /** Answers the requests of workers and of other servers. */
  readonly handler: RequestHandler;
  /** The statistics of this server's own range. */
  readonly statistics: ShardStatistics;
  /** The statistics of this server's rows of each table. */
  readonly tables: Readonly<Record<string, TableStatistics>>;
  /** Writes the last snapshot and ends the server. */
  close(): Promise<void>;
}

/**
 * Makes a parameter server. A listener passes requests to its `handler`. Throws ConfigError for options out of
 * range.
 */
export async function createParameterServer(
  options: ParameterServerOptions,
): Promise<ParameterServer> {
  checkOptions('createParameterServer', options, serverRules);
  const { server, servers = 1, optimizers, leaseMs = 5000, connect, isAgain = false } = options;
  const { snapshots, snapshotEveryMs = 10_000, waitMs = 600_000 } = options;
  if (connect !== undefined && servers < 2) throw loneError();
  const keeper =
    snapshots === undefined ? undefined : new SnapshotKeeper(snapshots, snapshotEveryMs);
  const hostOf = (range: number, role: ShardRole, other: number): ShardHost =>
    new ShardHost(new Shard(optimizers), {
      role,
      leaseMs,
      waitMs,
      replica: connect && new ShardReplica(range, () => connect(other)),
      snapshots: range === server ? keeper : undefined,
    });
  const tables = new TableHost({ server, servers, openRows: options.openRows ?? memoryRows });
  const next = (server + 1) % servers;
  const before = (server + servers - 1) % servers;
  const own = hostOf(server, isAgain ? 'empty' : 'primary', next);
  const hosts = new Map([[server, own]]);
  if (connect !== undefined) hosts.set(before, hostOf(before, 'empty', before));
  // A lost server that had a copy is replaced by the copy, which is newer than a snapshot.
  if (isAgain && connect === undefined) await own.restore(false);
  else if (options.resumes === true) await own.restore(true);
  return {
    handler: async (parts, client) => {
      const { request, arrays } = readRequest(parts);
      if (isTableRequest(request)) {
        requireOwn(request.shard, server);
        return tables.answer(request, arrays);
      }
      const host = hosts.get(request.shard);
      if (host !== undefined) return host.answer(request, arrays, client);
      throw wrongRange(request.shard, [...hosts.keys()]);
    },
    get statistics() {
      return own.statistics;
    },
    get tables() {
      return tables.statistics;
    },
    close: async () => {
      tables.close();
      for (const host of hosts.values()) await host.close();
    },
  };
}

function isTableRequest(request: AnyRequest): request is TableRequest {
  const { kind } = request;
  return kind === 'openTable' || kind === 'pullRows' || kind === 'pushRows';
}

/** Throws RefusedError for the range of another server. Rows of tables have no copies. */
function requireOwn(range: number, server: number): void {
  if (range !== server) throw wrongRange(range, [server]);
}

function wrongRange(range: number, own: readonly number[]): Error {
  return refusal('malformed', {
    asked: `a request for range ${range}`,
    found: `this server has range ${own.join(', ')}`,
    todo: 'Check that every process knows the servers in the same order',
  });
}

function loneError(): ConfigError {
  return new ConfigError({
    asked: 'a parameter server with a copy on another one',
    found: 'one server',
    todo: 'Start two servers or more',
  });
}
