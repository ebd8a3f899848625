import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';
import { checkInteger } from './check-integer.ts';

/** Visits every item once, in order. */
export class SequentialSampler implements ResumableSampler {
  readonly length: number;

  constructor(length: number) {
    checkInteger('a sequential sampler', 'length', length, 0);
    this.length = length;
  }

  get settings(): SamplerSettings {
    return { kind: 'sequential', length: this.length };
  }

  setEpoch(epoch: number): void {
    checkInteger('a sequential sampler', 'epoch', epoch, 0);
  }

  *[Symbol.iterator](): IterableIterator<number> {
    for (let i = 0; i < this.length; i++) yield i;
  }
}
