import type * as workerThreads from 'node:worker_threads';
import { ConfigError, DataError } from '../spec/errors.ts';
import { keepGenericWasmWrappers } from '../v8-settings.ts';
import type { BatchSource } from './batch-source.ts';
import { type ArrayTree, printArrays } from '../tensor/nd-array.ts';
import { type BatchReply, type BatchRequest, causeOf, type WorkerTask } from './worker-message.ts';
import { specifierOf, type WorkerDataset } from './worker-dataset.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

const workerDatasetRules: OptionRules<WorkerDataset> = {
  module: option.required(option.either(option.nonEmptyText, option.instanceOf(URL))),
  export: option.nonEmptyText,
  arguments: option.listOf(option.checkedLater()),
  collate: option.nonEmptyText,
  length: option.required(option.count),
};

/** Makes batches on worker threads. The threads take requests in turns. It needs Node. */
export class WorkerSource<Batch extends ArrayTree> implements BatchSource<Batch> {
  readonly #workers: readonly WorkerThread<Batch>[];
  #requests = 0;

  constructor(dataset: WorkerDataset, workers: number) {
    checkOptions('a dataset for workers', dataset, workerDatasetRules);
    const threads = builtinThreads();
    keepGenericWasmWrappers();
    const task: WorkerTask = {
      module: specifierOf(dataset.module),
      exportName: dataset.export ?? 'default',
      arguments: dataset.arguments ?? [],
      collateName: dataset.collate ?? null,
      length: dataset.length,
    };
    // The entry lies beside this file and has the same ending: TypeScript in the sources, JavaScript in the package.
    const entry = new URL(import.meta.url.replace(/[^/]*(\.[jt]s)$/, 'data-worker$1'));
    this.#workers = Array.from({ length: workers }, (_, index) => {
      const worker = new threads.Worker(entry, { name: `data-${index}`, workerData: task });
      return new WorkerThread(worker, index);
    });
  }

  async fetch(indices: readonly number[]): Promise<Batch> {
    const id = this.#requests++;
    const worker = this.#workers[id % this.#workers.length];
    if (worker === undefined) throw new RangeError('no workers');
    return worker.fetch({ id, indices });
  }

  setAwaited(isAwaited: boolean): void {
    for (const worker of this.#workers) worker.setAwaited(isAwaited);
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }
}

/** One worker and the requests that it has not answered yet. */
class WorkerThread<Batch extends ArrayTree> {
  readonly #worker: workerThreads.Worker;
  readonly #index: number;
  readonly #pending = new Map<number, PromiseWithResolvers<Batch>>();
  #failure: DataError | undefined;

  constructor(worker: workerThreads.Worker, index: number) {
    this.#worker = worker;
    this.#index = index;
    worker.on('message', (reply: BatchReply<Batch>) => this.#settle(reply));
    worker.on('messageerror', (error: Error) => this.#fail('sent what cannot be read', error));
    worker.on('error', (error) => this.#fail('failed', error));
    worker.on('exit', (code) => this.#fail(`ended with code ${code}`));
    worker.unref();
  }

  async fetch(request: BatchRequest): Promise<Batch> {
    if (this.#failure !== undefined) throw this.#failure;
    const pending = Promise.withResolvers<Batch>();
    this.#pending.set(request.id, pending);
    this.#worker.postMessage(request, []);
    return pending.promise;
  }

  setAwaited(isAwaited: boolean): void {
    if (isAwaited) this.#worker.ref();
    else this.#worker.unref();
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #settle(reply: BatchReply<Batch>): void {
    const pending = this.#pending.get(reply.id);
    this.#pending.delete(reply.id);
    if (reply.kind === 'batch') pending?.resolve(printArrays(reply.batch));
    else pending?.reject(this.#error('failed', causeOf(reply.error)));
  }

  #fail(found: string, cause?: unknown): void {
    this.#failure ??= this.#error(found, cause);
    for (const pending of this.#pending.values()) pending.reject(this.#failure);
    this.#pending.clear();
  }

  #error(found: string, cause?: unknown): DataError {
    const reason = cause instanceof Error ? `: ${cause.name}: ${cause.message}` : '';
    return new DataError(
      {
        asked: 'a batch of a data loader',
        found: `worker ${this.#index} ${found}${reason}`,
        todo: 'Mend the dataset; the cause of this error has the stack in the worker',
      },
      { worker: this.#index },
      { cause },
    );
  }
}

/**
 * Loads node:worker_threads at runtime. It cannot be imported, because this file is also bundled for browsers, where
 * only `workers: 0` is possible.
 */
function builtinThreads(): typeof workerThreads {
  if (typeof process !== 'undefined' && typeof process.getBuiltinModule === 'function') {
    return process.getBuiltinModule('node:worker_threads');
  }
  throw new ConfigError({
    asked: 'a data loader with workers',
    found: 'a platform without node:worker_threads',
    todo: 'Use workers: 0 here',
  });
}
