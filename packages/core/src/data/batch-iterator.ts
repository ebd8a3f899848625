import type { BatchSource } from './batch-source.ts';

/** The batches of an epoch, and the source that makes them. */
export interface Epoch<Batch> {
  readonly batches: AsyncGenerator<Batch, undefined, undefined>;
  readonly source: BatchSource<Batch>;
}

const unreachable = new FinalizationRegistry<BatchSource<unknown>>((source) => void source.close());

/**
 * An iterator over an epoch, which begins with the first `next`. The workers of the epoch keep the process alive only
 * while somebody waits for a batch. They end with the epoch, after `return`, or when the iterator is garbage-collected.
 */
export class BatchIterator<Batch> implements AsyncIterableIterator<Batch, undefined, undefined> {
  readonly #begin: () => Epoch<Batch>;
  #epoch: Epoch<Batch> | undefined;
  #isOver = false;
  #waiting = 0;

  constructor(begin: () => Epoch<Batch>) {
    this.#begin = begin;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Batch, undefined>> {
    if (this.#isOver) return { done: true, value: undefined };
    this.#epoch ??= this.#start();
    const { batches, source } = this.#epoch;
    this.#waiting += 1;
    source.setAwaited(true);
    try {
      return await batches.next();
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) source.setAwaited(false);
    }
  }

  async return(): Promise<IteratorResult<Batch, undefined>> {
    this.#isOver = true;
    return this.#epoch === undefined
      ? { done: true, value: undefined }
      : this.#epoch.batches.return(undefined);
  }

  #start(): Epoch<Batch> {
    const epoch = this.#begin();
    unreachable.register(this, epoch.source);
    return epoch;
  }
}
