import { checkByRules } from '../base/check-options.ts';
import { ConfigError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule } from '../base/option-rules.ts';
import type { Generator } from '../random/generator.ts';
import { checkIndex, type Dataset } from './dataset.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';

const indexList: OptionRule<ArrayLike<number>> = {
  fits: (value): value is ArrayLike<number> =>
    ArrayBuffer.isView(value) || (Array.isArray(value) && value.every(option.count.fits)),
  expected: 'a list of whole numbers from 0',
};
const subsetRules = {
  dataset: option.required(option.object('a dataset')),
  indices: option.required(indexList),
};

/** The items of a dataset at given indices, in the order of the indices. */
export class Subset<Sample extends ArrayTree> implements Dataset<Sample> {
  readonly dataset: Dataset<Sample>;
  readonly indices: ArrayLike<number>;

  constructor(dataset: Dataset<Sample>, indices: ArrayLike<number>) {
    checkByRules('Subset', { dataset, indices }, subsetRules);
    this.dataset = dataset;
    this.indices = indices;
  }

  get length(): number {
    return this.indices.length;
  }

  get(index: number): Sample | Promise<Sample> {
    checkIndex(index, this.length);
    return this.dataset.get(this.indices[index] ?? 0);
  }
}

/**
 * Cuts a dataset at random into parts of given lengths, or of fractions that sum to 1: torch's random_split,
 * index for index. Throws ConfigError if the parts do not make the whole.
 */
export function randomSplit<Sample extends ArrayTree>(
  generator: Generator,
  dataset: Dataset<Sample>,
  parts: readonly number[],
): Subset<Sample>[] {
  const { length } = dataset;
  const lengths = lengthsOf(parts, length);
  const total = lengths.reduce((sum, part) => sum + part, 0);
  if (total !== length || lengths.some((part) => !Number.isInteger(part) || part < 0)) {
    throw new ConfigError(
      {
        asked: `to split a dataset into parts of ${parts.join(', ')}`,
        found: `${length} items`,
        todo: 'Give lengths that sum to the length of the dataset, or fractions that sum to 1',
      },
      { parts, length },
    );
  }
  const order = generator.randperm(length);
  let offset = 0;
  return lengths.map((part) => new Subset(dataset, order.subarray(offset, (offset += part))));
}

function lengthsOf(parts: readonly number[], length: number): number[] {
  const sum = parts.reduce((total, part) => total + part, 0);
  // This is Python's math.isclose, and demands a sum of at most 1: rounding must not give away more items than there
  // are.
  const fractions = sum <= 1 && 1 - sum <= 1e-9 && parts.every((part) => part >= 0);
  if (!fractions) return [...parts];
  const lengths = parts.map((part) => Math.floor(length * part));
  const remainder = length - lengths.reduce((total, part) => total + part, 0);
  return lengths.map((part, i) => part + Math.ceil((remainder - i) / lengths.length));
}
