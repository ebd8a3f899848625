import type { ServerStep } from '@shardwise/parameter-server';
import { connectServers, type ConnectedServers } from '@shardwise/parameter-server/node';
import type { ServersData } from '../launcher/ranks/rank-data.ts';
import { countRequests, type Traffic } from './join/count-traffic.ts';

/** Curves of more workers would leave too few of a run's names for the script's own metrics. */
const MAX_WORKERS = 16;

/** The parameter servers of a rank, and the metrics of its latest step with them. */
export interface RankServers {
  readonly servers: ConnectedServers;
  /** Returns curves for the report: how far this rank is ahead, how stale its gradient was, and how long it waited. */
  readonly metrics: (rank: number) => Readonly<Record<string, number>>;
}

/**
 * Connects a rank with its servers. `data` is undefined if the run has no servers. `traffic` counts what the rank and
 * the servers say.
 */
export function rankServers(data: ServersData | undefined, traffic: Traffic): RankServers {
  const none = { addresses: [], secret: 'no servers', areReplicated: false };
  const { addresses, secret, areReplicated } = data ?? none;
  const connected = connectServers({ addresses, secret, areReplicated });
  const servers: ConnectedServers = {
    ...connected,
    connect: async (server) => countRequests(await connected.connect(server), traffic),
  };
  let latest: ServerStep | undefined;
  servers.onStep = (step) => {
    latest = step;
  };
  return {
    servers,
    metrics: (rank) => {
      if (latest === undefined || rank >= MAX_WORKERS) return {};
      const { lead, staleness, waitedMs } = latest;
      return {
        [`ahead/${rank}`]: lead,
        [`stale/${rank}`]: staleness,
        [`waited (ms)/${rank}`]: waitedMs,
      };
    },
  };
}
