import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ShardwiseError } from '@shardwise/core/extend';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { firstRankOf, type Generation, worldSizeOf } from '../rendezvous/generation.ts';
import type { RunMessage } from '../run-state/run-message.ts';
import type { OutputStream } from '../terminal/run-output.ts';
import { rankEnvironment } from './ranks/environment.ts';
import { describeEnd } from './failure.ts';
import { type EndSignals, heedSignals } from './heed-signals.ts';
import type { LaunchResult, RankEnd, RankHandle, RankStart } from './ranks/rank-handle.ts';
import { RankProcess } from './processes/rank-process.ts';
import { type LauncherOrder, rankDataMarker, type ServersData } from './ranks/rank-data.ts';
import { type ApartOptions, RestartedRank } from './restarted-rank.ts';
import { StopFlag } from './ranks/stop-flag.ts';
import { RankWorker } from './threads/rank-worker.ts';
import type { RankTransport } from './transports/create-rank-transport.ts';
import type { RankForm } from './transports/transport-choice.ts';

export interface LaunchOptions extends EndSignals {
  /** The absolute path of the script. */
  readonly script: string;
  /** The arguments of the script, which are process.argv from index 2 on. */
  readonly args: readonly string[];
  readonly form: RankForm;
  readonly generation: Generation;
  readonly runId: string;
  readonly maxRestarts: number;
  readonly environment: NodeJS.ProcessEnv;
  readonly transport: RankTransport;
  /** Set if ranks are started again one by one. If undefined, all ranks are ended when one fails. */
  readonly apart?: ApartOptions | undefined;
  /** Default: none. */
  readonly servers?: ServersData | undefined;
  /** Where the ranks save checkpoints: an absolute path, or an address. Default: below the run directory. */
  readonly checkpointDirectory?: string | undefined;
  /** Settles when something on another host ends the generation. */
  readonly ended?: Promise<LaunchEnd>;
  readonly onMessage: (message: RunMessage) => void;
  readonly onLine: (rank: number, line: string, stream: OutputStream) => void;
  /** Called when a rank has failed. Its error may say that another rank failed first. */
  readonly onFailure?: (rank: number, end: RankEnd) => void;
  /** How long ranks may take to end after another one has failed, in milliseconds. Default: 2000. */
  readonly graceMs?: number;
}

/** Why ranks that have not failed are ended. */
export interface LaunchEnd {
  readonly rank?: number | undefined;
  readonly reason: string;
  /** Whether this host was cut off, so that the other ones may go on. Default: false. */
  readonly isCutOff?: boolean | undefined;
}

/** How long ranks may take to end after another one has failed, if nothing else is asked. */
export const GRACE_MS = 2000;

/** Runs a script once on every rank of this host, and waits for all of them. */
export async function launch(options: LaunchOptions): Promise<LaunchResult> {
  const { generation, form, transport, ended, apart } = options;
  const logDirectory = join(generation.runDirectory, 'logs');
  await mkdir(logDirectory, { recursive: true });
  keepGenericWasmWrappers();
  let culprit: number | undefined;
  let blamed = false;
  let grace: NodeJS.Timeout | undefined;
  let isOver = false;
  let sayLater: (() => void) | undefined;
  const handles: RankHandle[] = [];
  const failures: Promise<unknown>[] = [];
  const force = (): void => {
    failures.push(Promise.all(handles.map((handle) => handle.terminate())));
  };
  const orderAll = (order: LauncherOrder): void => {
    for (const handle of handles) handle.order(order);
  };
  /** Releases the ranks from their collectives, and ends the ranks that do not end by themselves. */
  const release = ({ rank, reason }: LaunchEnd): void => {
    if (grace !== undefined || isOver) return;
    transport.abort(rank, reason);
    // Only the ranks themselves can end calls of a group of their own, or of a group with other hosts.
    orderAll({ kind: 'abort', rank, reason });
    grace = setTimeout(force, options.graceMs ?? GRACE_MS);
  };
  const onEnd = (rank: number, end: RankEnd): void => {
    const { exitCode, error, terminated } = end;
    options.onMessage({ kind: 'exit', rank, code: exitCode });
    if (exitCode === 0 || terminated) return;
    // A rank that tells the others why it fails may end after them, so a later culprit can replace one that was
    // aborted.
    if (culprit === undefined || (!blamed && !isAborted(error))) culprit = rank;
    if (apart !== undefined) {
      // The other ranks go on. The failure is reported when they have ended.
      sayLater ??= () => options.onFailure?.(rank, end);
      return;
    }
    blamed ||= !isAborted(error);
    options.onFailure?.(rank, end);
    release(causeOf(rank, end));
  };

  const stopFlag = transport.choice.kind === 'threads' ? new StopFlag() : undefined;
  const starts = startsOf(options, stopFlag, logDirectory, { onDoomed: release, onEnd });
  const create = { threads: RankWorker, processes: RankProcess }[form];
  for (const start of starts) {
    handles.push(apart === undefined ? new create(start) : new RestartedRank(create, start, apart));
  }

  const onStop = (): void =>
    stopFlag === undefined ? orderAll({ kind: 'stop' }) : stopFlag.request();
  const heedNoMore = heedSignals(options, { onStop, onForce: force });
  void ended?.then(release);
  try {
    const outcomes = await Promise.all(handles.map(({ outcome }) => outcome));
    sayLater?.();
    return { outcomes, culprit };
  } finally {
    clearTimeout(grace);
    isOver = true;
    heedNoMore();
    await Promise.all(failures);
  }
}

export interface RankEndListeners {
  readonly onDoomed: (end: LaunchEnd) => void;
  readonly onEnd: (rank: number, end: RankEnd) => void;
}

/** Returns what each rank of this host is started with. */
export function startsOf(
  options: LaunchOptions,
  stopFlag: StopFlag | undefined,
  logDirectory: string,
  { onDoomed, onEnd }: RankEndListeners,
): readonly RankStart[] {
  const { script, args, generation, transport, onMessage, onLine } = options;
  const { nodes, nodeRank, runDirectory, resumeDirectory } = generation;
  const worldSize = worldSizeOf(generation);
  const localWorldSize = nodes[nodeRank]?.ranks ?? 0;
  return Array.from({ length: localWorldSize }, (_, localRank) => {
    const rank = firstRankOf(generation, nodeRank) + localRank;
    return {
      script,
      args,
      environment: rankEnvironment(options.environment, {
        form: options.form,
        rank,
        worldSize,
        localRank,
        localWorldSize,
        nodeRank,
        restarts: generation.restarts,
        maxRestarts: options.maxRestarts,
        runId: options.runId,
        master: generation.store,
      }),
      logPath: join(logDirectory, `rank-${rank}.log`),
      data: {
        marker: rankDataMarker,
        rank,
        worldSize,
        localRank,
        runDirectory,
        checkpointDirectory: options.checkpointDirectory,
        resumeDirectory,
        way: transport.way,
        transport: transport.choice,
        servers: options.servers,
        stop: stopFlag?.memory,
      },
      onMessage,
      onLine: (line, stream) => onLine(rank, line, stream),
      onDoomed: (reason) => onDoomed({ rank, reason }),
      onEnd: (end) => onEnd(rank, end),
    } satisfies RankStart;
  });
}

/**
 * Returns why the other ranks are ended. A rank that failed because of another one passes on what it knows of that one.
 */
function causeOf(rank: number, end: RankEnd): LaunchEnd {
  const { error } = end;
  if (ShardwiseError.isInstance(error) && isAborted(error)) {
    const { abortedBy, reason } = error.fields;
    if (typeof abortedBy === 'number' && typeof reason === 'string') {
      return { rank: abortedBy, reason };
    }
  }
  return { rank, reason: describeEnd(end) };
}

/** Whether a rank failed only because another rank was gone. */
export function isAborted(error: unknown): boolean {
  return error instanceof Error && error.name === 'CollectiveAbortedError';
}
