import { type BatchSource, type Collate, endOfData } from './batch-source.ts';
import type { IterableDataset } from './iterable-dataset.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';

/** How a stream is read. */
export interface StreamOptions<Sample> {
  readonly batchSize: number;
  readonly dropLast: boolean;
  readonly collate: Collate<Sample>;
  /**
   * The number of batches that are read and dropped first. They are those that were already handed out in an epoch that
   * is continued.
   */
  readonly skip: number;
}

/** Reads one iteration of a stream, on this thread, batch after batch. */
export class StreamSource<Sample extends ArrayTree> implements BatchSource<Sample> {
  readonly #options: StreamOptions<Sample>;
  readonly #dataset: IterableDataset<Sample>;
  #items: Iterator<Sample> | AsyncIterator<Sample> | undefined;
  #read = 0;
  #isOver = false;
  /** The last fetch. The next one waits for it, so that batches are read in order. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(dataset: IterableDataset<Sample>, options: StreamOptions<Sample>) {
    this.#options = options;
    this.#dataset = dataset;
  }

  fetch(): Promise<Sample | typeof endOfData> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => {});
    return next;
  }

  setAwaited(): void {}

  async close(): Promise<void> {
    await this.#last;
    if (!this.#isOver) await this.#items?.return?.();
    this.#isOver = true;
  }

  async #next(): Promise<Sample | typeof endOfData> {
    const { batchSize, skip, collate, dropLast } = this.#options;
    while (this.#read < skip * batchSize) if ((await this.#item()) === endOfData) return endOfData;
    const first = this.#read;
    const samples: Sample[] = [];
    while (samples.length < batchSize) {
      const item = await this.#item();
      if (item === endOfData) break;
      samples.push(item);
    }
    if (samples.length === 0 || (dropLast && samples.length < batchSize)) return endOfData;
    return collate(
      samples,
      samples.map((_, i) => first + i),
    );
  }

  async #item(): Promise<Sample | typeof endOfData> {
    if (this.#isOver) return endOfData;
    const { done, value } = await (this.#items ??= iterate(this.#dataset)).next();
    if (done === true) {
      this.#isOver = true;
      return endOfData;
    }
    this.#read++;
    return value;
  }
}

function iterate<Sample extends ArrayTree>(
  dataset: IterableDataset<Sample>,
): Iterator<Sample> | AsyncIterator<Sample> {
  return Symbol.asyncIterator in dataset
    ? dataset[Symbol.asyncIterator]()
    : dataset[Symbol.iterator]();
}
