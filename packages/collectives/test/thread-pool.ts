import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { RankFailure, type RankOutcome } from '@shardwise/testing';
import type { ProcessAnswer, ProcessTask } from './process-pool.ts';

/**
 * Threads that run an exported function of a module, one call at a time, as often as asked: a
 * contract makes dozens of worlds, and starting a thread takes longer than most of its tests.
 */
export class ThreadPool {
  readonly #threads: Worker[] = [];

  /** Calls the function as each of `size` ranks and tells how each call ended, in rank order. */
  run(
    size: number,
    moduleUrl: URL,
    options: {
      readonly name: string;
      readonly world: unknown;
      readonly data?: unknown;
      readonly onFailure?: (rank: number, error: RankFailure) => void;
    },
  ): Promise<readonly RankOutcome[]> {
    const { name, world, data } = options;
    const outcomes = Array.from({ length: size }, async (_, rank) => {
      const context = { rank, size, world, data };
      const outcome = await this.#call(rank, { moduleUrl: moduleUrl.href, name, context });
      if (outcome.status === 'rejected') options.onFailure?.(rank, outcome.error);
      return outcome;
    });
    return Promise.all(outcomes);
  }

  async end(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map((thread) => thread.terminate()));
  }

  async #call(rank: number, task: ProcessTask): Promise<RankOutcome> {
    const thread = (this.#threads[rank] ??= startThread());
    const answered = once(thread, 'message');
    thread.postMessage(task);
    const [answer]: ProcessAnswer[] = await answered;
    if (answer?.status === 'fulfilled') return answer;
    if (answer === undefined) throw new TypeError(`The thread of rank ${rank} answered nothing`);
    return { status: 'rejected', error: new RankFailure(rank, answer.report) };
  }
}

function startThread(): Worker {
  keepGenericWasmWrappers();
  return new Worker(new URL('./process-worker.ts', import.meta.url));
}
