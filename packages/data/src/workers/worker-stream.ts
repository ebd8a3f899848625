import { Worker } from 'node:worker_threads';
import {
  causeOf,
  checkOptions,
  DataError,
  option,
  type OptionRules,
  printArrays,
  specifierOf,
} from '@shardwise/core/extend';
import { EpochPlace, noItems, type RankStreamState } from '../streams/epoch-place.ts';
import { checkSplit, type SplitOptions } from '../streams/rank-stream.ts';
import type { SharedItem } from '../streams/read-share.ts';
import type { StreamReply, StreamTask } from './stream-message.ts';

/** Options of `WorkerStream`. */
export interface WorkerStreamOptions extends SplitOptions {
  /** What a worker imports: `new URL('./stream.ts', import.meta.url)`, or a package's name. */
  readonly module: URL | string;
  /** The name of the module's export that is the stream, or a function that makes it from `arguments`. Default: `default`. */
  readonly export?: string;
  /** The arguments of the exported function: plain data that is copied to every worker. */
  readonly arguments?: readonly unknown[];
  /** The number of threads. Default: 1. */
  readonly workers?: number;
  /** The number of items that each thread makes before they are needed. Default: 2. */
  readonly prefetch?: number;
}

const workerRules: OptionRules<WorkerStreamOptions> = {
  module: option.required(option.either(option.nonEmptyText, option.instanceOf(URL))),
  export: option.nonEmptyText,
  arguments: option.listOf(option.checkedLater()),
  workers: option.integer(1),
  rank: option.required(option.checkedLater()),
  numReplicas: option.required(option.checkedLater()),
  dropLast: option.checkedLater(),
  prefetch: option.checkedLater(),
};

/**
 * A rank's items of a stream that threads make, so that the next items are made while a step computes. Each thread makes the
 * stream for itself, and takes some of the rank's items in turns. Items, their order and states are those of
 * `stream.split` for any number of threads. Items are copied to this thread: give arrays. Node only.
 */
export class WorkerStream<T> implements AsyncIterable<T> {
  readonly #options: WorkerStreamOptions;
  readonly #split: Required<SplitOptions>;
  readonly #at = new EpochPlace();

  constructor(options: WorkerStreamOptions) {
    checkOptions('WorkerStream', options, workerRules);
    const { rank, numReplicas, dropLast = false, prefetch = 2 } = options;
    this.#split = checkSplit('WorkerStream', { rank, numReplicas, dropLast, prefetch });
    this.#options = options;
  }

  /** The number of the present epoch. Between epochs, the number of the next one. */
  get epoch(): number {
    return this.#at.epoch;
  }

  /** Makes the next iteration this epoch, from its beginning, or from where `load` has put it. */
  setEpoch(epoch: number): void {
    this.#at.setEpoch(epoch);
  }

  /** The place after the items that were handed out. Items that were made before they were needed do not count. */
  state(): RankStreamState {
    return this.#at.state();
  }

  /** Goes on after the items that the ranks had when `state` was saved, on any number of ranks and threads. */
  load(state: unknown): void {
    this.#at.load(state);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, undefined, undefined> {
    const { epoch, from } = this.#at.begin();
    const { numReplicas, prefetch } = this.#split;
    const { workers = 1 } = this.#options;
    const tasks = Array.from({ length: workers }, (_, worker): StreamTask => {
      const { module, export: exportName = 'default', arguments: given = [] } = this.#options;
      const share = { ...this.#split, worker, workers, prefetch: 0 };
      return { module: specifierOf(module), exportName, arguments: given, epoch, from, share };
    });
    const threads = tasks.map((task) => new StreamThread<T>(task, prefetch + 1));
    let start = from;
    let hasItems = from.place !== null || from.skip > 0;
    try {
      for (let turn = 0; ; turn++) {
        const worker = turn % workers;
        const item = await threads[worker]?.next();
        if (item === undefined) break;
        hasItems = true;
        // After the last thread's turn, the place is after a round of all. Before, it is said by the items since then.
        const after = { place: start.place, skip: start.skip + (worker + 1) * numReplicas };
        const here = worker === workers - 1 ? { place: item.place, skip: 0 } : after;
        if (worker === workers - 1) start = here;
        this.#at.move(epoch, item.isLast ? undefined : here);
        yield item.value;
      }
    } finally {
      await Promise.all(threads.map((thread) => thread.close()));
    }
    if (!hasItems) throw noItems(this.#split);
    this.#at.move(epoch, undefined);
    return undefined;
  }
}

/** A thread, and the items that it was asked for. */
class StreamThread<T> {
  readonly #worker: Worker;
  readonly #index: number;
  /** The items that were asked for and not taken, the oldest first. */
  readonly #items: Promise<SharedItem<T> | undefined>[] = [];
  /** Those of them that have not been answered. */
  readonly #waiting: PromiseWithResolvers<SharedItem<T> | undefined>[] = [];
  #failure: DataError | undefined;

  constructor(task: StreamTask, requests: number) {
    this.#index = task.share.worker;
    // The entry lies beside this file and has the same ending: TypeScript in the sources, JavaScript in the package.
    const entry = new URL(import.meta.url.replace(/[^/]*(\.[jt]s)$/, 'stream-worker$1'));
    this.#worker = new Worker(entry, { name: `stream-${this.#index}`, workerData: task });
    this.#worker.on('message', (reply: StreamReply<T>) => this.#settle(reply));
    this.#worker.on('messageerror', (error: Error) =>
      this.#fail('sent what cannot be read', error),
    );
    this.#worker.on('error', (error: Error) => this.#fail('failed', error));
    this.#worker.on('exit', (code) => this.#fail(`ended with code ${code}`));
    for (let i = 0; i < requests; i++) this.#request();
  }

  /** The next item. Undefined at the end. */
  async next(): Promise<SharedItem<T> | undefined> {
    this.#request();
    return this.#items.shift();
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #request(): void {
    const item = Promise.withResolvers<SharedItem<T> | undefined>();
    // A failure comes when the item's turn does. Until then, it is not an unhandled rejection.
    item.promise.catch(() => {});
    if (this.#failure === undefined) {
      this.#waiting.push(item);
      this.#worker.postMessage('next', []);
    } else item.reject(this.#failure);
    this.#items.push(item.promise);
  }

  #settle(reply: StreamReply<T>): void {
    const item = this.#waiting.shift();
    if (reply.kind === 'item')
      item?.resolve({ ...reply.item, value: printArrays(reply.item.value) });
    else if (reply.kind === 'end') item?.resolve(undefined);
    else item?.reject(this.#error('failed', causeOf(reply.error)));
  }

  #fail(found: string, cause?: unknown): void {
    this.#failure ??= this.#error(found, cause);
    for (const item of this.#waiting.splice(0)) item.reject(this.#failure);
  }

  #error(found: string, cause?: unknown): DataError {
    const reason = cause instanceof Error ? `: ${cause.name}: ${cause.message}` : '';
    return new DataError(
      {
        asked: 'an item of a stream',
        found: `worker ${this.#index} ${found}${reason}`,
        todo: 'Mend the stream; the cause of this error has the stack in the worker',
      },
      { worker: this.#index },
      { cause },
    );
  }
}
