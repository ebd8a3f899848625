import type { Dataset } from './dataset.ts';
import type { ArrayTree } from './nd-array.ts';

/** What is in the place of a batch where a stream has no more. */
export const endOfData: unique symbol = Symbol('the end of the data');

/** Makes batches of indices; several may be under way at once. */
export interface BatchSource<Batch> {
  fetch(indices: readonly number[]): Promise<Batch | typeof endOfData>;
  /** Whether somebody waits for a batch: else none that is under way keeps the process alive. */
  setAwaited(isAwaited: boolean): void;
  close(): Promise<void>;
}

/** Makes a batch of samples; `indices` are theirs in the dataset. */
export type Collate<Sample> = (samples: readonly Sample[], indices: readonly number[]) => Sample;

/** Reads a dataset on this thread. */
export class LocalSource<Sample extends ArrayTree> implements BatchSource<Sample> {
  readonly #dataset: Dataset<Sample>;
  readonly #collate: Collate<Sample>;

  constructor(dataset: Dataset<Sample>, collate: Collate<Sample>) {
    this.#dataset = dataset;
    this.#collate = collate;
  }

  async fetch(indices: readonly number[]): Promise<Sample> {
    const samples = indices.map(async (index) => this.#dataset.get(index));
    return this.#collate(await Promise.all(samples), indices);
  }

  setAwaited(): void {}

  async close(): Promise<void> {}
}
