import { Generator } from '../random/generator.ts';
import { ConfigError } from '../spec/errors.ts';
import { checkInteger } from './check-integer.ts';
import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';

/** Options of `DistributedSampler`. */
export interface DistributedSamplerOptions {
  /** The dataset, or its number of items. */
  readonly dataset: number | { readonly length: number };
  /** The number of ranks that share the items. */
  readonly numReplicas: number;
  readonly rank: number;
  /** Whether the order is random. Default: true. */
  readonly shuffle?: boolean;
  /** The seed of the random order. It must be the same on all ranks. Default: 0. */
  readonly seed?: number;
  /**
   * Whether the last items are left out if the number of ranks does not divide the number of items. Otherwise, some
   * ranks get items a second time. In both cases, all ranks get the same number of items. Default: false.
   */
  readonly dropLast?: boolean;
}

const samplerRules: OptionRules<DistributedSamplerOptions> = {
  dataset: option.required(option.either(option.count, option.object('a dataset'))),
  numReplicas: option.required(option.integer(1)),
  rank: option.required(option.number),
  shuffle: option.flag,
  seed: option.count,
  dropLast: option.flag,
};

/**
 * This rank's share of a dataset: torch.utils.data.DistributedSampler, index for index. The order of an epoch
 * is a permutation seeded with seed + epoch. Rank r takes items r, r + R, r + 2R, ...
 */
export class DistributedSampler implements ResumableSampler {
  readonly length: number;
  readonly numReplicas: number;
  readonly rank: number;
  readonly #items: number;
  readonly #shuffle: boolean;
  readonly #seed: number;
  readonly #dropLast: boolean;
  #epoch = 0;

  constructor(options: DistributedSamplerOptions) {
    checkOptions('DistributedSampler', options, samplerRules);
    const { dataset, numReplicas, rank, shuffle = true, seed = 0, dropLast = false } = options;
    const items = typeof dataset === 'number' ? dataset : dataset.length;
    checkInteger('a distributed sampler', 'length', items, 0);
    if (!Number.isInteger(rank) || rank < 0 || rank >= numReplicas) {
      throw new ConfigError(
        {
          asked: `a distributed sampler of ${numReplicas} replicas`,
          found: `Invalid rank ${rank}, rank should be in the interval [0, ${numReplicas - 1}]`,
          todo: 'Pass the rank and the size of one process group',
        },
        { rank, numReplicas },
      );
    }
    this.length = dropLast ? Math.floor(items / numReplicas) : Math.ceil(items / numReplicas);
    this.numReplicas = numReplicas;
    this.rank = rank;
    this.#items = items;
    this.#shuffle = shuffle;
    this.#seed = seed;
    this.#dropLast = dropLast;
  }

  get settings(): SamplerSettings {
    return {
      kind: 'distributed',
      length: this.#items,
      shuffle: this.#shuffle,
      seed: this.#seed,
      dropLast: this.#dropLast,
    };
  }

  setEpoch(epoch: number): void {
    checkInteger('a distributed sampler', 'epoch', epoch, 0);
    this.#epoch = epoch;
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const order = this.#shuffle
      ? new Generator(this.#seed + this.#epoch).randperm(this.#items)
      : undefined;
    for (let i = 0; i < this.length; i++) {
      // Past its end, the order starts again, as often as necessary.
      const position = (this.rank + i * this.numReplicas) % this.#items;
      yield order?.[position] ?? position;
    }
  }
}
