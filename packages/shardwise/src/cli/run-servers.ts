import { ConfigError } from '@shardwise/core/extend';
import type { ShardStatistics } from '@shardwise/strategies';
import { withoutRankVariables } from '../environment/without-rank-variables.ts';
import { ServerProcesses } from '../launcher/servers/server-processes.ts';

import type { Fact } from '../run-state/message.ts';
import type { RunOutput } from '../terminal/run-output.ts';
import type { RunCommandOptions } from './run-options.ts';
import type { LaunchSettings } from './launch-settings.ts';

/** Throws ConfigError for servers of a run on several hosts, and for more replicas than servers. */
export function checkServers(
  { servers: count = 0, serverReplicas = 1 }: RunCommandOptions,
  { hosts }: LaunchSettings,
): void {
  if (serverReplicas > Math.max(count, 1)) throw replicasError(count, serverReplicas);
  if (count === 0 || hosts === undefined) return;
  throw new ConfigError(
    {
      asked: `--servers ${count} in a run on several hosts`,
      found: 'parameter servers, which the ranks reach at an address of this host alone',
      todo: 'Run on one host, or leave --servers out',
    },
    { servers: count },
  );
}

/** Starts the parameter servers that a run asks for; undefined: it asks for none. */
export async function startServers(
  { servers: count = 0, serverReplicas = 1 }: RunCommandOptions,
  runDirectory: string | undefined,
  output: RunOutput,
): Promise<ServerProcesses | undefined> {
  if (count === 0 || runDirectory === undefined) return undefined;
  return ServerProcesses.start({
    count,
    areReplicated: serverReplicas === 2,
    runDirectory,
    environment: withoutRankVariables(process.env),
    onNotice: (text) => output.notice(text),
  });
}

function replicasError(count: number, replicas: number): ConfigError {
  return new ConfigError(
    {
      asked: `--server-replicas ${replicas}`,
      found: `${count} servers`,
      todo: `Give --servers ${replicas} or more`,
    },
    { servers: count, replicas },
  );
}

/** What the report's head says of the servers. */
export function serverFacts(
  statistics: readonly (ShardStatistics | undefined)[],
): Readonly<Record<string, Fact>> {
  const known = statistics.filter((each) => each !== undefined);
  if (known.length === 0) return {};
  const sum = (of: (each: ShardStatistics) => number): number =>
    known.reduce((total, each) => total + of(each), 0);
  return {
    'parameter servers': statistics.length,
    'updates of a server': Math.max(...known.map(({ updates }) => updates)),
    staleness: histogram(known.map(({ staleness }) => staleness)),
    'steps ahead': histogram(known.map(({ lead }) => lead)),
    'gradients sent in backward': `${percent(
      sum(({ earlyBytes }) => earlyBytes),
      sum(({ receivedBytes }) => receivedBytes),
    )} of ${sum(({ receivedBytes }) => receivedBytes)} bytes`,
    'pushes too late': sum(({ late }) => late),
    'pushes sent twice': sum(({ duplicates }) => duplicates),
  };
}

function percent(part: number, whole: number): string {
  return whole === 0 ? '0 %' : `${Math.round((100 * part) / whole)} %`;
}

/** How often each number came: `0: 120, 1: 30`. */
function histogram(counts: readonly Readonly<Record<string, number>>[]): string {
  const total = new Map<number, number>();
  for (const [key, count] of counts.flatMap((each) => Object.entries(each))) {
    total.set(Number(key), (total.get(Number(key)) ?? 0) + count);
  }
  const sorted = [...total].toSorted(([a], [b]) => a - b);
  return sorted.map(([key, count]) => `${key}: ${count}`).join(', ') || 'none';
}
