import { Worker } from 'node:worker_threads';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { RankFailure, type RankOutcome, reportOf } from './rank-failure.ts';
import type { RankMessage, RankTask } from './rank-task.ts';

/** Options of `spawnRanks` and `settleRanks`. */
export interface SpawnRanksOptions {
  /** The exported function of the module that each rank calls. Default: main. */
  readonly name?: string;
  /** What the ranks join, such as a ThreadsWorld. It is posted to each rank, like `data`. */
  readonly world?: unknown;
  readonly data?: unknown;
  /** Called once for each rank that fails, before anything else happens. */
  readonly onFailure?: (rank: number, error: RankFailure) => void;
  /** The ranks are ended after this time. Default: 60 s. */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * Runs an exported function of a module on `size` worker threads and returns the results of all ranks, in rank
 * order. The first rank that fails ends the other ranks, and the call rejects with its RankFailure.
 */
export async function spawnRanks(
  size: number,
  moduleUrl: string | URL,
  options: SpawnRanksOptions = {},
): Promise<readonly unknown[]> {
  const failed = Promise.withResolvers<never>();
  const ranks = start(size, moduleUrl, {
    ...options,
    onFailure: (rank, error) => {
      options.onFailure?.(rank, error);
      failed.reject(error);
    },
  });
  try {
    const outcomes = await Promise.race([ranks.outcomes, failed.promise]);
    return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : undefined));
  } finally {
    await ranks.end();
  }
}

/** Like spawnRanks, but waits for every rank and returns how each one ended. */
export async function settleRanks(
  size: number,
  moduleUrl: string | URL,
  options: SpawnRanksOptions = {},
): Promise<readonly RankOutcome[]> {
  const ranks = start(size, moduleUrl, options);
  try {
    return await ranks.outcomes;
  } finally {
    await ranks.end();
  }
}

function start(
  size: number,
  moduleUrl: string | URL,
  options: SpawnRanksOptions,
): { readonly outcomes: Promise<readonly RankOutcome[]>; readonly end: () => Promise<void> } {
  const { name = 'main', world, data, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  keepGenericWasmWrappers();
  const workers = Array.from({ length: size }, (_, rank) => {
    const context = { rank, size, world, data };
    const task: RankTask = { moduleUrl: String(moduleUrl), name, context };
    return new Worker(workerUrl(), { workerData: task, execArgv: execArgv() });
  });
  const outcomes = workers.map(async (worker, rank) => {
    const outcome = await outcomeOf(worker, rank, timeoutMs);
    if (outcome.status === 'rejected') options.onFailure?.(rank, outcome.error);
    return outcome;
  });
  return {
    outcomes: Promise.all(outcomes),
    end: async () => {
      await Promise.all(workers.map((worker) => worker.terminate()));
      await Promise.allSettled(outcomes);
    },
  };
}

function outcomeOf(worker: Worker, rank: number, timeoutMs: number): Promise<RankOutcome> {
  return new Promise((resolve) => {
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      resolve({ status: 'rejected', error: new RankFailure(rank, reportOf(error)) });
    };
    const timer = setTimeout(() => {
      fail(new Error(`The rank did not end within ${timeoutMs} ms`));
    }, timeoutMs);
    worker.once('message', (message: RankMessage) => {
      clearTimeout(timer);
      if (message.status === 'fulfilled') resolve(message);
      else resolve({ status: 'rejected', error: new RankFailure(rank, message.report) });
    });
    worker.once('error', fail);
    worker.once('exit', (code) => fail(new Error(`The thread ended with code ${code}`)));
  });
}

/** Returns the worker's URL: the source in the repository, or the file of the build in dist. */
function workerUrl(): URL {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  return new URL(`./rank-worker.${extension}`, import.meta.url);
}

/**
 * Returns the options of the threads. The host, such as a test runner, may have been started with conditions that its
 * threads must share.
 */
function execArgv(): string[] {
  const source = '--conditions=@shardwise/source';
  const known = process.execArgv.includes(source);
  return import.meta.url.endsWith('.ts') && !known
    ? [...process.execArgv, source]
    : process.execArgv;
}
