import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeShmWorld, createShmWorld } from '@shardwise/collectives/node';
import type { TestHost } from '@shardwise/testing/hosts';
import { RankFailure, type RankOutcome } from '@shardwise/testing/ranks';
import type { HostMessage, HostRequest, HostTask } from './host-task.ts';

export interface HostRun {
  /** Resolves when all ranks have joined and, if they reduce, have reduced once. */
  readonly ready: Promise<unknown>;
  /** The outcomes in rank order. */
  readonly outcomes: Promise<readonly RankOutcome[]>;
  /** Returns the outcomes of some ranks, for worlds in which other ranks never end. */
  outcomesOf(ranks: readonly number[]): Promise<readonly RankOutcome[]>;
}

export interface HostRunOptions {
  /** Whether the ranks of a host use shared memory between them. Default: true. */
  readonly sharedMemory?: boolean;
  readonly algorithm?: string;
  readonly joinTimeoutMs?: number;
}

const ARENA_BYTES = 1 << 16;

/** Processes on test hosts that are ranks of one world after another. Rank 0's process also serves the store. */
export class HostRanks implements AsyncDisposable {
  /** The processes in rank order. */
  readonly processes: readonly ChildProcess[];
  readonly #hosts: readonly TestHost[];
  readonly #ranksPerHost: number;
  readonly #port: Promise<number>;
  #epoch = 0;

  constructor(hosts: readonly TestHost[], ranksPerHost: number) {
    this.#hosts = hosts;
    this.#ranksPerHost = ranksPerHost;
    this.processes = this.#numbers().map((host) => startRank(hosts[host]));
    const [first] = this.processes;
    this.#port = served(first);
    request(first, { serve: hosts[0]?.address ?? '' });
  }

  /** Makes a new world of the processes. */
  async run(task: HostTask, options: HostRunOptions = {}): Promise<HostRun> {
    const { sharedMemory = true, algorithm, joinTimeoutMs } = options;
    const hosts = this.#numbers();
    const epoch = this.#epoch++;
    const port = await this.#port;
    const shared = this.#hosts.map(() =>
      sharedMemory
        ? createShmWorld({ size: this.#ranksPerHost, arenaBytes: ARENA_BYTES })
        : undefined,
    );
    const storeHost = this.#hosts[0]?.address ?? '';
    const calls = this.processes.map((child, rank) => {
      const host = hosts[rank] ?? 0;
      const call = listen(child, rank);
      request(child, {
        join: {
          rank,
          hosts,
          address: this.#hosts[host]?.address ?? '',
          store: { host: storeHost, port },
          epoch,
          shared: shared[host],
          algorithm,
          joinTimeoutMs,
          task,
        },
      });
      return call;
    });
    const outcomes = Promise.all(calls.map(({ outcome }) => outcome)).finally(() => {
      for (const world of shared) if (world !== undefined) closeShmWorld(world);
    });
    const ready = Promise.all(calls.map((call) => call.ready));
    // A caller may await only one of these promises, so a rejection of the others must not count as unhandled.
    for (const promise of [ready, outcomes]) promise.catch(() => {});
    return {
      ready,
      outcomes,
      outcomesOf: (some) =>
        Promise.all(calls.filter((_, rank) => some.includes(rank)).map(({ outcome }) => outcome)),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = this.processes.filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    const ended = running.map((child) => once(child, 'exit'));
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(ended);
  }

  /** Returns the number of each rank's host. */
  #numbers(): readonly number[] {
    return this.#hosts.flatMap((_, host) => Array.from({ length: this.#ranksPerHost }, () => host));
  }
}

function startRank(host: TestHost | undefined): ChildProcess {
  if (host === undefined) throw new RangeError('A rank without a host');
  const file = `${import.meta.dirname}/host-rank.ts`;
  return host.spawn(process.execPath, ['--conditions=@shardwise/source', file], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    serialization: 'advanced',
  });
}

async function served(child: ChildProcess | undefined): Promise<number> {
  if (child === undefined) throw new RangeError('No rank to keep the store');
  const [message]: HostMessage[] = await once(child, 'message');
  if (message?.kind === 'serving') return message.port;
  throw new Error('Rank 0 has no store');
}

function request(child: ChildProcess | undefined, message: HostRequest): void {
  child?.send(message);
}

interface RankCall {
  readonly ready: Promise<void>;
  readonly outcome: Promise<RankOutcome>;
}

function listen(child: ChildProcess, rank: number): RankCall {
  const ready = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<RankOutcome>();
  const end = (result: RankOutcome): void => {
    child.off('message', onMessage).off('exit', onExit);
    outcome.resolve(result);
    if (result.status === 'rejected') ready.reject(result.error);
    else ready.resolve();
  };
  const onMessage = (message: HostMessage): void => {
    if (message.kind === 'ready') ready.resolve();
    if (message.kind === 'fulfilled') end({ status: 'fulfilled', value: message.value });
    if (message.kind === 'rejected') {
      end({ status: 'rejected', error: new RankFailure(rank, message.report) });
    }
  };
  const onExit = (code: number | null, signal: string | null): void => {
    const text = `The process ended with ${signal ?? `code ${code}`}`;
    const report = { name: 'Error', message: text, stack: undefined, code: undefined, fields: {} };
    end({ status: 'rejected', error: new RankFailure(rank, report) });
  };
  child.on('message', onMessage).on('exit', onExit);
  ready.promise.catch(() => {});
  return { ready: ready.promise, outcome: outcome.promise };
}
