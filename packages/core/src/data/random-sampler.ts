import { Generator } from '../random/generator.ts';
import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';
import { checkOptions, requireIntegers } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Options of `RandomSampler`. */
export interface RandomSamplerOptions {
  readonly length: number;
  /** The number of items of an epoch. Default: `length`. */
  readonly numSamples?: number;
  /** Whether each item is drawn from all items, instead of permuting them. Default: false. */
  readonly replacement?: boolean;
  /** Together with the epoch, it determines the order. It cannot be given together with a generator. Default: 0. */
  readonly seed?: number;
  /** The stream from which the order of each epoch is drawn, instead of the seed. */
  readonly generator?: Generator;
}

const samplerRules: OptionRules<RandomSamplerOptions> = {
  length: option.required(option.integer(1)),
  numSamples: option.integer(1),
  replacement: option.flag,
  seed: option.count,
  generator: option.instanceOf(Generator),
};

/**
 * Visits items in random order: torch's RandomSampler with `generator=`. Without a generator, each epoch has a new one
 * that is seeded with seed + epoch (as in DistributedSampler), so the order depends on nothing else. (torch seeds it
 * from its global generator, which does not exist here.) With a generator, its stream continues from epoch to epoch,
 * and `setEpoch` has no effect.
 */
export class RandomSampler implements ResumableSampler {
  readonly length: number;
  readonly generator: Generator | undefined;
  readonly #items: number;
  readonly #replacement: boolean;
  readonly #seed: number;
  #epoch = 0;

  constructor(options: RandomSamplerOptions) {
    checkOptions('RandomSampler', options, samplerRules);
    const { length, numSamples = length, replacement = false, seed = 0, generator } = options;
    this.length = numSamples;
    this.generator = generator;
    this.#items = length;
    this.#replacement = replacement;
    this.#seed = seed;
  }

  get settings(): SamplerSettings {
    return {
      kind: 'random',
      length: this.#items,
      numSamples: this.length,
      replacement: this.#replacement,
      ...(this.generator === undefined ? { seed: this.#seed } : {}),
    };
  }

  setEpoch(epoch: number): void {
    requireIntegers('a random sampler', { epoch }, 0);
    this.#epoch = epoch;
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const generator = this.generator ?? new Generator(this.#seed + this.#epoch);
    if (this.#replacement) {
      yield* generator.randint(0, this.#items, this.length);
      return;
    }
    const whole = Math.floor(this.length / this.#items);
    for (let i = 0; i < whole; i++) yield* generator.randperm(this.#items);
    // As in torch, a permutation is drawn even if none of its items are taken, so that the stream continues at the same
    // place.
    yield* generator.randperm(this.#items).subarray(0, this.length % this.#items);
  }
}
