import type { Dataset } from './dataset.ts';
import type { ArrayTree } from './nd-array.ts';

/** Makes batches of indices; several may be under way at once. */
export interface BatchSource<Batch> {
  fetch(indices: readonly number[]): Promise<Batch>;
  /** Whether somebody waits for a batch: else none that is under way keeps the process alive. */
  setAwaited(isAwaited: boolean): void;
  close(): Promise<void>;
}

/** Reads a dataset on this thread. */
export class LocalSource<Sample extends ArrayTree> implements BatchSource<Sample> {
  readonly #dataset: Dataset<Sample>;
  readonly #collate: (samples: readonly Sample[]) => Sample;

  constructor(dataset: Dataset<Sample>, collate: (samples: readonly Sample[]) => Sample) {
    this.#dataset = dataset;
    this.#collate = collate;
  }

  async fetch(indices: readonly number[]): Promise<Sample> {
    return this.#collate(await Promise.all(indices.map(async (index) => this.#dataset.get(index))));
  }

  setAwaited(): void {}

  async close(): Promise<void> {}
}
