import { ConfigError } from '@shardwise/core/extend';
import type { ShardStatistics } from '@shardwise/parameter-server';
import { withoutRankVariables } from '../environment/without-rank-variables.ts';
import { ServerProcesses } from '../launcher/servers/server-processes.ts';

import type { Fact } from '../run-state/run-message.ts';
import { displayPath } from '../text/display-path.ts';
import type { RankForm } from '../launcher/transports/transport-choice.ts';
import type { RunOutput } from '../terminal/run-output.ts';
import type { ResumePoint } from './find-resume.ts';
import type { RunCommandOptions } from './run-options.ts';
import type { LaunchSettings } from './launch-settings.ts';

/** Throws ConfigError if a run on several hosts asks for servers, or a run asks for more replicas than servers. */
export function checkServers(
  { servers: count = 0, serverReplicas = 1, workerRestarts }: RunCommandOptions,
  { hosts, form }: LaunchSettings,
): void {
  if (workerRestarts !== undefined) checkWorkers(count, form, workerRestarts);
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

export interface StartServersOptions {
  readonly options: RunCommandOptions;
  readonly runDirectory: string | undefined;
  /** Undefined if the run starts from the beginning. */
  readonly resume: ResumePoint | undefined;
  readonly output: RunOutput;
}

const SNAPSHOT_EVERY_MS = 10_000;

/** Starts the parameter servers that a run asks for. Returns undefined if it asks for none. */
export async function startServers({
  options: { servers: count = 0, serverReplicas = 1, snapshotEveryMs = SNAPSHOT_EVERY_MS },
  runDirectory,
  resume,
  output,
}: StartServersOptions): Promise<ServerProcesses | undefined> {
  if (count === 0 || runDirectory === undefined) return undefined;
  if (resume !== undefined) {
    output.notice(
      resume.servers === undefined
        ? 'Parameter servers begin with the values of worker 0: the run to go on from has left no snapshots of any'
        : `Parameter servers go on from their snapshots in ${displayPath(resume.servers)}`,
    );
  }
  return ServerProcesses.start({
    count,
    areReplicated: serverReplicas === 2,
    runDirectory,
    snapshotEveryMs,
    resume: resume?.servers,
    environment: withoutRankVariables(process.env),
    onNotice: (text) => output.notice(text),
  });
}

function checkWorkers(servers: number, form: RankForm, restarts: number): void {
  if (servers > 0 && form === 'processes') return;
  throw new ConfigError(
    {
      asked: `--worker-restarts ${restarts}`,
      found:
        servers === 0
          ? 'a run without parameter servers'
          : 'ranks that are threads, which end each other',
      todo:
        servers === 0
          ? 'Give --servers 1, or --max-restarts for ranks that start again together'
          : 'Leave --ranks out, or give --ranks processes',
    },
    { servers, form },
  );
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

/** Returns the facts about the servers for the head of the report. */
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
    'waited for others': waits(known.map(({ waitedMs }) => waitedMs)),
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

/**
 * Returns how long the steps of each worker waited for the server that made it wait longest, such as `worker 0: 1.2 s,
 * worker 1: 0.0 s`.
 */
function waits(servers: readonly Readonly<Record<string, number>>[]): string {
  const longest = new Map<number, number>();
  for (const [worker, ms] of servers.flatMap((each) => Object.entries(each))) {
    longest.set(Number(worker), Math.max(longest.get(Number(worker)) ?? 0, ms));
  }
  const sorted = [...longest].toSorted(([a], [b]) => a - b);
  return (
    sorted.map(([worker, ms]) => `worker ${worker}: ${(ms / 1000).toFixed(1)} s`).join(', ') ||
    'none'
  );
}

/** Returns how often each number occurred, such as `0: 120, 1: 30`. */
function histogram(counts: readonly Readonly<Record<string, number>>[]): string {
  const total = new Map<number, number>();
  for (const [key, count] of counts.flatMap((each) => Object.entries(each))) {
    total.set(Number(key), (total.get(Number(key)) ?? 0) + count);
  }
  const sorted = [...total].toSorted(([a], [b]) => a - b);
  return sorted.map(([key, count]) => `${key}: ${count}`).join(', ') || 'none';
}
