import { ConfigError } from '@shardwise/core/extend';
import { asNodeLaunch } from '../environment/launch.ts';
import { detectLaunch } from '../environment/detect-launch.ts';
import type { RankForm } from '../launcher/transports/transport-choice.ts';
import { findTransportModule } from '../launcher/transports/transport-module.ts';
import { defaultTimes, type RendezvousTimes } from '../rendezvous/rendezvous.ts';
import { DEFAULT_PORT } from './parse-values.ts';
import { readSecret } from '../rendezvous/read-secret.ts';
import type { Endpoint, NodeRange, RunCommandOptions } from './run-options.ts';

/** What this host starts, and with which other hosts. */
export interface LaunchSettings {
  /** The number of ranks of this host. */
  readonly nproc: number;
  readonly form: RankForm;
  readonly maxRestarts: number;
  /** Undefined if this host is the only one. */
  readonly hosts: HostSettings | undefined;
}

export interface HostSettings {
  readonly nodes: NodeRange;
  readonly place: number | undefined;
  readonly endpoint: Endpoint;
  readonly jobId: string;
  readonly secret: string;
  readonly times: RendezvousTimes;
}

const DEFAULT_JOB = 'shardwise';

/**
 * Settles the launch settings. The command line takes precedence over the environment, which takes precedence over the
 * defaults. Throws ConfigError.
 */
export async function launchSettings(
  options: RunCommandOptions,
  environment: NodeJS.ProcessEnv,
): Promise<LaunchSettings> {
  const launch = asNodeLaunch(detectLaunch(environment));
  const found = launch.kind === 'node' ? launch : undefined;
  const nodes = options.nodes ??
    (found && { min: found.minNodes, max: found.maxNodes }) ?? { min: 1, max: 1 };
  const settings = {
    nproc: options.nproc ?? found?.ranksPerNode ?? 1,
    maxRestarts: options.maxRestarts ?? found?.maxRestarts ?? 0,
  };
  // Other hosts rely on this launcher, so whatever ends a rank must not end the launcher with it.
  const form = options.ranks ?? (nodes.max === 1 ? formOf(options) : 'processes');
  await checkTransport(options, form);
  checkMembers(options, settings.nproc, nodes);
  if (nodes.max === 1) return { ...settings, form, hosts: undefined };
  const place = options.nodeRank ?? found?.nodeRank;
  if (place !== undefined && place >= nodes.max) throw placeError(place, nodes);
  const port = found?.port;
  const address = found?.address;
  const endpoint =
    options.rendezvous ??
    (address === undefined ? undefined : { host: address, port: port ?? DEFAULT_PORT });
  if (endpoint === undefined) throw noEndpointError(nodes);
  const { lastCallMs = defaultTimes.lastCallMs, joinTimeoutMs = defaultTimes.joinTimeoutMs } =
    options;
  return {
    ...settings,
    form,
    hosts: {
      nodes,
      place,
      endpoint,
      jobId: options.jobId ?? found?.jobId ?? DEFAULT_JOB,
      secret: await readSecret(options.secretFile, environment),
      times: { ...defaultTimes, lastCallMs, joinTimeoutMs },
    },
  };
}

/** Throws ConfigError if the ranks cannot be connected by the module that `--transport` names. */
async function checkTransport(
  { transport, workerRestarts }: RunCommandOptions,
  form: RankForm,
): Promise<void> {
  if (transport === undefined) return;
  await findTransportModule(transport, form);
  if (workerRestarts === undefined) return;
  throw new ConfigError(
    {
      asked: `--transport ${transport} with --worker-restarts ${workerRestarts}`,
      found: 'workers that start again one by one are not connected with each other',
      todo: 'Leave out one of the two',
    },
    { transport, workerRestarts },
  );
}

/** Throws ConfigError for ranks that cannot go on without one that is lost. */
function checkMembers(
  { minNproc, servers = 0, workerRestarts, transport }: RunCommandOptions,
  nproc: number,
  nodes: NodeRange,
): void {
  if (minNproc === undefined) return;
  const found =
    // Other hosts may have other numbers of ranks. The rendezvous waits for as many as are needed.
    nodes.max === 1 && minNproc > nproc
      ? `--nproc ${nproc}, which is less`
      : transport !== undefined
        ? `--transport ${transport}, which connects the ranks of the start alone`
        : servers > 0 || workerRestarts !== undefined
          ? '--servers, whose workers go on without each other by --worker-restarts'
          : undefined;
  if (found === undefined) return;
  throw new ConfigError(
    { asked: `--min-nproc ${minNproc}`, found, todo: 'Change or leave out one of the two' },
    { minNproc, nproc },
  );
}

function placeError(place: number, { max }: NodeRange): ConfigError {
  return new ConfigError(
    {
      asked: `--node-rank ${place}`,
      found: `a run on up to ${max} hosts, which count from 0`,
      todo: 'Give a smaller --node-rank, or more hosts with --nnodes',
    },
    { place, maxNodes: max },
  );
}

function noEndpointError({ min, max }: NodeRange): ConfigError {
  return new ConfigError(
    {
      asked: `A run on ${min === max ? max : `${min} to ${max}`} hosts`,
      found: 'nothing says where they meet',
      todo: 'Give every host the same --rdzv HOST:PORT, an address of the first one',
    },
    { minNodes: min, maxNodes: max },
  );
}

/**
 * Ranks that start again one by one must be processes, because a thread can end the whole process, and so should ranks
 * that others can lose. Ranks that a module connects must be, because threads talk by the memory that they share.
 */
function formOf({ workerRestarts, transport, minNproc }: RunCommandOptions): RankForm {
  return [workerRestarts, transport, minNproc].every((option) => option === undefined)
    ? 'threads'
    : 'processes';
}
