import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import {
  RankFailure,
  type RankOutcome,
  type RankMessage,
  type RankTask,
} from '@shardwise/testing/ranks';
import { runTask, type RunTaskOptions } from './run-task.ts';

/**
 * Threads that run an exported function of a module, one call at a time. A contract makes dozens of worlds, and
 * starting a thread takes longer than most of its tests.
 */
export class ThreadPool {
  readonly #threads: Worker[] = [];

  /** Calls the function as each of `size` ranks. Returns how each call ended, in rank order. */
  run(size: number, moduleUrl: URL, options: RunTaskOptions): Promise<readonly RankOutcome[]> {
    return runTask(size, moduleUrl, options, (rank, task) => this.#call(rank, task));
  }

  async end(): Promise<void> {
    await Promise.all(this.#threads.splice(0).map((thread) => thread.terminate()));
  }

  async #call(rank: number, task: RankTask): Promise<RankOutcome> {
    const thread = (this.#threads[rank] ??= startThread());
    const ended = new AbortController();
    const onExit = (): void => ended.abort(new Error(`The thread of rank ${rank} has ended`));
    thread.once('exit', onExit);
    const answered = once(thread, 'message', { signal: ended.signal });
    thread.postMessage(task);
    const [answer]: RankMessage[] = await answered.finally(() => thread.off('exit', onExit));
    if (answer?.status === 'fulfilled') return answer;
    if (answer === undefined) throw new TypeError(`The thread of rank ${rank} answered nothing`);
    return { status: 'rejected', error: new RankFailure(rank, answer.report) };
  }
}

function startThread(): Worker {
  keepGenericWasmWrappers();
  const thread = new Worker(new URL('./rank-loop.ts', import.meta.url));
  // A pool that nobody ends does not keep the process alive.
  thread.unref();
  return thread;
}
