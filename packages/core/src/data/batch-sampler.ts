import { checkOptions, requireIntegers } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { Sampler } from '../spec/sampler.ts';

const samplerRules = {
  sampler: option.required(option.object<Sampler>('a sampler')),
  dropLast: option.required(option.flag),
};

/**
 * Groups the items of a sampler into batches of `batchSize`. The last batch may be smaller. With `dropLast`, it is then
 * left out.
 */
export class BatchSampler implements Iterable<number[]> {
  readonly sampler: Sampler;
  readonly batchSize: number;
  readonly dropLast: boolean;

  constructor(sampler: Sampler, batchSize: number, dropLast = false) {
    requireIntegers('a batch sampler', { batchSize }, 1);
    checkOptions('BatchSampler', { sampler, dropLast }, samplerRules);
    this.sampler = sampler;
    this.batchSize = batchSize;
    this.dropLast = dropLast;
  }

  /** The number of batches of an epoch. */
  get length(): number {
    const batches = this.sampler.length / this.batchSize;
    return this.dropLast ? Math.floor(batches) : Math.ceil(batches);
  }

  *[Symbol.iterator](): IteratorObject<number[], undefined> {
    let batch: number[] = [];
    for (const index of this.sampler) {
      batch.push(index);
      if (batch.length < this.batchSize) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0 && !this.dropLast) yield batch;
    return undefined;
  }
}
