import { requireIntegers } from '../base/check-options.ts';
import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';

/** Visits every item once, in order. */
export class SequentialSampler implements ResumableSampler {
  readonly length: number;

  constructor(length: number) {
    requireIntegers('a sequential sampler', { length }, 0);
    this.length = length;
  }

  get settings(): SamplerSettings {
    return { kind: 'sequential', length: this.length };
  }

  setEpoch(epoch: number): void {
    requireIntegers('a sequential sampler', { epoch }, 0);
  }

  *[Symbol.iterator](): IterableIterator<number> {
    for (let i = 0; i < this.length; i++) yield i;
  }
}
