import { Generator } from '../random/generator.ts';
import { checkOptions, requireIntegers } from '../base/check-options.ts';
import { hashOfNumbers } from '../hash.ts';
import { ConfigError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { ResumableSampler, SamplerSettings } from './resumable-sampler.ts';

/** Options of `WeightedRandomSampler`. */
export interface WeightedRandomSamplerOptions {
  /** The weight of each item. An item is drawn in proportion to its weight. The sum need not be 1. */
  readonly weights: ArrayLike<number>;
  /** The number of items that all ranks together draw in an epoch. */
  readonly numSamples: number;
  /** Whether an item may be drawn again. Default: true. */
  readonly replacement?: boolean;
  /** Together with the epoch, it determines the order. It cannot be given together with a generator. Default: 0. */
  readonly seed?: number;
  /** The stream from which each epoch is drawn, instead of the seed. */
  readonly generator?: Generator;
  /** The number of ranks that take the drawn items in turns. Default: 1. */
  readonly numReplicas?: number;
  /** The number of this rank among the replicas. Default: 0. */
  readonly rank?: number;
}

const samplerRules: OptionRules<WeightedRandomSamplerOptions> = {
  weights: option.required(option.object('a list of weights')),
  numSamples: option.required(option.integer(1)),
  replacement: option.flag,
  seed: option.count,
  generator: option.instanceOf(Generator),
  numReplicas: option.integer(1),
  rank: option.count,
};

/**
 * Draws items by their weights: torch's WeightedRandomSampler with `generator=`, index for index. Without a generator,
 * each epoch has a new one that is seeded with seed + epoch, as in RandomSampler. All ranks draw the same items. With
 * `numReplicas` and `rank`, each rank takes its share of them.
 */
export class WeightedRandomSampler implements ResumableSampler {
  readonly length: number;
  readonly numReplicas: number;
  readonly generator: Generator | undefined;
  readonly #weights: Float64Array;
  readonly #samples: number;
  readonly #replacement: boolean;
  readonly #seed: number;
  readonly #rank: number;
  #epoch = 0;

  /**
   * Throws ConfigError, also for weights that are negative, infinite or NaN, if fewer weights are above 0 than
   * items are drawn without replacement, and for a number of items that the ranks do not divide.
   */
  constructor(options: WeightedRandomSamplerOptions) {
    checkOptions('WeightedRandomSampler', options, samplerRules);
    const { weights, numSamples, replacement = true, seed = 0, generator } = options;
    const { numReplicas = 1, rank = 0 } = options;
    if (options.seed !== undefined && generator !== undefined) throw twoSources();
    this.#weights = checkedWeights(weights, replacement ? 1 : numSamples);
    if (numSamples % numReplicas !== 0 || rank >= numReplicas) {
      throw misfit(numSamples, rank, numReplicas);
    }
    this.length = numSamples / numReplicas;
    this.numReplicas = numReplicas;
    this.generator = generator;
    this.#samples = numSamples;
    this.#replacement = replacement;
    this.#seed = seed;
    this.#rank = rank;
  }

  get settings(): SamplerSettings {
    return {
      kind: 'weighted',
      numSamples: this.#samples,
      replacement: this.#replacement,
      // A loader notices by it that a saved epoch was drawn by other weights.
      weights: hashOfNumbers(new Uint8Array(this.#weights.buffer)),
      ...(this.generator === undefined ? { seed: this.#seed } : {}),
    };
  }

  setEpoch(epoch: number): void {
    requireIntegers('a weighted random sampler', { epoch }, 0);
    this.#epoch = epoch;
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const generator = this.generator ?? new Generator(this.#seed + this.#epoch);
    const drawn = this.#draw(generator);
    for (let i = this.#rank; i < drawn.length; i += this.numReplicas) yield drawn[i] ?? 0;
  }

  /** torch.multinomial of f64 weights. */
  #draw(generator: Generator): ArrayLike<number> {
    // PyTorch draws a single item in the same way as items without replacement.
    if (this.#replacement && this.#samples > 1) {
      return drawAgain(generator, this.#weights, this.#samples);
    }
    return drawOnce(generator, this.#weights, this.#samples);
  }
}

/** Draws with replacement. Each item is found by looking up a number from [0, 1) in the running sum of the weights. */
function drawAgain(generator: Generator, weights: Float64Array, count: number): number[] {
  let total = 0;
  const sums = weights.map((weight) => (total += weight));
  const ends = sums.map((sum) => sum / total);
  // Rounding must not leave numbers that lie behind the last end.
  ends[ends.length - 1] = 1;
  return Array.from(generator.rand64(count), (value) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = low + ((high - low) >> 1);
      if ((ends[middle] ?? 1) < value) low = middle + 1;
      else high = middle;
    }
    return low;
  });
}

/**
 * Draws without replacement. Each weight is divided by an exponentially distributed number, and the items with the
 * largest quotients are taken (Efraimidis and Spirakis 2006).
 */
function drawOnce(generator: Generator, weights: Float64Array, count: number): number[] {
  const values = generator.rand64(weights.length);
  const keys = weights.map((weight, i) => weight / -Math.log1p(-(values[i] ?? 0)));
  return Array.from(keys.keys())
    .sort((a, b) => (keys[b] ?? 0) - (keys[a] ?? 0))
    .slice(0, count);
}

function checkedWeights(weights: ArrayLike<number>, least: number): Float64Array {
  const list = Array.from(weights);
  const wrong = list.findIndex((weight) => !(weight >= 0 && Number.isFinite(weight)));
  const positive = list.filter((weight) => weight > 0).length;
  if (wrong < 0 && positive >= least) return Float64Array.from(list);
  throw new ConfigError(
    {
      asked: `a WeightedRandomSampler of ${list.length} weights`,
      found:
        wrong < 0
          ? `${positive} weights above 0, of which ${least} different items are to be drawn`
          : `${describeValue(list[wrong])} as weight ${wrong}`,
      todo: 'Give finite weights from 0, and enough of them above 0',
    },
    { weights: list.length, positive },
  );
}

function twoSources(): ConfigError {
  return new ConfigError({
    asked: 'a WeightedRandomSampler',
    found: 'a seed together with a generator',
    todo: 'Seed the generator instead',
  });
}

function misfit(numSamples: number, rank: number, numReplicas: number): ConfigError {
  return new ConfigError(
    {
      asked: `a WeightedRandomSampler of ${numSamples} items for rank ${rank} of ${numReplicas}`,
      found: 'a rank that is none of these, or items that the ranks do not divide',
      todo: 'Make numSamples a multiple of numReplicas, and rank less than that',
    },
    { numSamples, rank, numReplicas },
  );
}
