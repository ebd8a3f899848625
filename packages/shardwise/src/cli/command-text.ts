import type { Endpoint, NodeRange, RunCommandOptions } from './run-options.ts';

/** Returns the command line that starts a run with these options, as a user would type it. */
export function commandText(options: RunCommandOptions): string {
  const { nproc, ranks, nodes, nodeRank, rendezvous, maxRestarts } = options;
  const { runDirectory, checkpointDirectory, resumeDirectory, report, plain, script, args } =
    options;
  const words = [
    'shardwise',
    'run',
    ...(nodes === undefined ? [] : ['--nnodes', rangeText(nodes)]),
    ...(nproc === undefined || nproc === 1 ? [] : ['--nproc', String(nproc)]),
    ...(options.minNproc === undefined ? [] : ['--min-nproc', String(options.minNproc)]),
    ...(options.device === undefined ? [] : ['--device', options.device]),
    ...(options.servers === undefined ? [] : ['--servers', String(options.servers)]),
    ...(options.serverReplicas === undefined
      ? []
      : ['--server-replicas', String(options.serverReplicas)]),
    ...(options.snapshotEveryMs === undefined
      ? []
      : ['--server-snapshots', seconds(options.snapshotEveryMs)]),
    ...(options.workerRestarts === undefined
      ? []
      : ['--worker-restarts', String(options.workerRestarts)]),
    ...(nodeRank === undefined ? [] : ['--node-rank', String(nodeRank)]),
    ...(rendezvous === undefined ? [] : ['--rdzv', endpointText(rendezvous)]),
    ...(options.jobId === undefined ? [] : ['--rdzv-id', options.jobId]),
    ...(options.secretFile === undefined ? [] : ['--secret-file', options.secretFile]),
    ...(options.joinTimeoutMs === undefined
      ? []
      : ['--join-timeout', seconds(options.joinTimeoutMs)]),
    ...(options.lastCallMs === undefined ? [] : ['--last-call', seconds(options.lastCallMs)]),
    ...(options.transport === undefined ? [] : ['--transport', options.transport]),
    ...(options.transportTimeoutMs === undefined
      ? []
      : ['--transport-timeout', seconds(options.transportTimeoutMs)]),
    ...(ranks === undefined ? [] : ['--ranks', ranks]),
    ...(maxRestarts === undefined ? [] : ['--max-restarts', String(maxRestarts)]),
    ...(runDirectory === undefined ? [] : ['--run-dir', runDirectory]),
    ...(checkpointDirectory === undefined ? [] : ['--checkpoint-dir', checkpointDirectory]),
    ...(resumeDirectory === undefined ? [] : ['--resume', resumeDirectory]),
    ...options.metrics.flatMap((sink) => ['--metrics', sink]),
    ...(options.plan === undefined ? [] : ['--plan', options.plan]),
    ...(report ? [] : ['--no-report']),
    ...(plain ? ['--plain'] : []),
    script,
    ...args,
  ];
  return words.map(quote).join(' ');
}

function rangeText({ min, max }: NodeRange): string {
  return min === max ? String(max) : `${min}:${max}`;
}

function endpointText({ host, port }: Endpoint): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function seconds(durationMs: number): string {
  return String(durationMs / 1000);
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
