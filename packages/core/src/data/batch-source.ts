import type { Dataset } from './dataset.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';

/** The value that `fetch` returns instead of a batch when a stream has no more batches. */
export const endOfData: unique symbol = Symbol('the end of the data');

/** Makes the batches of lists of indices. Several calls of `fetch` may be under way at once. */
export interface BatchSource<Batch> {
  fetch(indices: readonly number[]): Promise<Batch | typeof endOfData>;
  /**
   * Tells the source whether somebody waits for a batch. If nobody does, fetches under way must not keep the process
   * alive.
   */
  setAwaited(isAwaited: boolean): void;
  close(): Promise<void>;
}

/** Makes a batch of samples. `indices` are the indices of the samples in the dataset. */
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
