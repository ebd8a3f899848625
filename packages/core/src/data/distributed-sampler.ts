import { Generator } from '../random/generator.ts';
import { ConfigError } from '../spec/errors.ts';
import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';
import { checkOptions, requireIntegers } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

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
  /**
   * Whether ranks get items a second time if their number does not divide the number of items. With false, the ranks
   * together visit each item once: a rank may have one item less than another, or none. This is for evaluation on ranks
   * that do not communicate in each forward pass, because they may have different numbers of batches. Default: true.
   */
  readonly repeats?: boolean;
}

const samplerRules: OptionRules<DistributedSamplerOptions> = {
  dataset: option.required(option.either(option.count, option.object('a dataset'))),
  numReplicas: option.required(option.integer(1)),
  rank: option.required(option.number),
  shuffle: option.flag,
  seed: option.count,
  dropLast: option.flag,
  repeats: option.flag,
};

/**
 * This rank's share of a dataset: torch.utils.data.DistributedSampler, index for index. The order of an epoch
 * is a permutation seeded with seed + epoch. Rank r takes items r, r + R, r + 2R, ... With `repeats: false` it is
 * Lightning's UnrepeatedDistributedSampler. This is an option and not a class, because orders, epochs and continuing are
 * the same. Throws ConfigError for a rank that is not one of the replicas, and for `repeats: false` with `dropLast`.
 */
export class DistributedSampler implements ResumableSampler {
  readonly length: number;
  readonly numReplicas: number;
  readonly rank: number;
  /** The number of items of the dataset. */
  readonly items: number;
  /** Whether ranks may have different numbers of items. */
  readonly isUneven: boolean;
  readonly #shuffle: boolean;
  readonly #seed: number;
  readonly #dropLast: boolean;
  #epoch = 0;

  constructor(options: DistributedSamplerOptions) {
    checkOptions('DistributedSampler', options, samplerRules);
    const { dataset, numReplicas, rank, shuffle = true, seed = 0 } = options;
    const { dropLast = false, repeats = true } = options;
    const items = typeof dataset === 'number' ? dataset : dataset.length;
    requireIntegers('a distributed sampler', { length: items }, 0);
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
    if (dropLast && !repeats) {
      throw new ConfigError({
        asked: 'a distributed sampler with repeats: false and dropLast: true',
        found: 'that each item is to be visited once, and the last ones are to be left out',
        todo: 'Leave out one of them',
      });
    }
    const share = items / numReplicas;
    this.isUneven = !repeats;
    if (this.isUneven) this.length = Math.max(0, Math.ceil(share - rank / numReplicas));
    else this.length = dropLast ? Math.floor(share) : Math.ceil(share);
    this.numReplicas = numReplicas;
    this.rank = rank;
    this.items = items;
    this.#shuffle = shuffle;
    this.#seed = seed;
    this.#dropLast = dropLast;
  }

  get settings(): SamplerSettings {
    return {
      kind: 'distributed',
      length: this.items,
      shuffle: this.#shuffle,
      seed: this.#seed,
      dropLast: this.#dropLast,
      ...(this.isUneven ? { repeats: false } : {}),
    };
  }

  get epoch(): number {
    return this.#epoch;
  }

  setEpoch(epoch: number): void {
    requireIntegers('a distributed sampler', { epoch }, 0);
    this.#epoch = epoch;
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const itemAt = this.order();
    for (let i = 0; i < this.length; i++) yield itemAt(this.rank + i * this.numReplicas);
  }

  /**
   * Returns the item at each position of the order that the ranks share out in this epoch. Rank r has the positions r, r
   * + R, r + 2R, ... Past its end, the order starts again, as often as necessary.
   */
  order(): (position: number) => number {
    const { items } = this;
    const order = this.#shuffle
      ? new Generator(this.#seed + this.#epoch).randperm(items)
      : undefined;
    return (position) => order?.[position % items] ?? position % items;
  }
}
