import { ConfigError, describeValue } from '../spec/errors.ts';
import { checkIndex, type Dataset } from './dataset.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';

/** The items of several datasets, one after the other. */
export class ConcatDataset<Sample extends ArrayTree> implements Dataset<Sample> {
  readonly datasets: readonly Dataset<Sample>[];
  /** The index after the last item of each dataset. */
  readonly #ends: readonly number[];

  /** Throws ConfigError if there are no datasets, and for a value that is not a dataset. */
  constructor(datasets: Iterable<Dataset<Sample>>) {
    const list: readonly Dataset<Sample>[] = [...datasets];
    for (const dataset of list) requireDataset(dataset);
    if (list.length === 0) throw noDataset('none');
    this.datasets = list;
    let end = 0;
    this.#ends = list.map(({ length }) => (end += length));
  }

  get length(): number {
    return this.#ends.at(-1) ?? 0;
  }

  get(index: number): Sample | Promise<Sample> {
    checkIndex(index, this.length);
    const which = this.#ends.findIndex((end) => index < end);
    const dataset = this.datasets[which];
    if (dataset === undefined) throw new RangeError(`item ${index} of ${this.length}`);
    return dataset.get(index - (this.#ends[which - 1] ?? 0));
  }
}

function requireDataset(dataset: unknown): void {
  const isObject = typeof dataset === 'object' && dataset !== null;
  if (isObject && 'get' in dataset && typeof dataset.get === 'function' && 'length' in dataset) {
    return;
  }
  throw noDataset(describeValue(dataset));
}

function noDataset(found: string): ConfigError {
  return new ConfigError({
    asked: 'a ConcatDataset',
    found: `${found} where datasets are expected`,
    todo: 'Give it a list of datasets: new data.ConcatDataset([first, second])',
  });
}
