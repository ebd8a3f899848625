import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { ConfigError, data, Generator } from 'shardwise';

/** Named arrays, and lists of them, as samples and batches are. */
export type ArrayTree = Parameters<typeof data.collate>[0][number];

/** A loader to be prepared: the options of DataLoader, of which each rank gets its share. */
export interface LoaderOptions<Sample extends ArrayTree> {
  readonly dataset: data.Dataset<Sample>;
  /** The rows of a batch of one rank or, with splitBatches, of all ranks together. Default: 1. */
  readonly batchSize?: number;
  /** Whether the order is random and differs between epochs. Default: false. */
  readonly shuffle?: boolean;
  /** The seed of the order. It must be the same on all ranks. Default: 0. */
  readonly seed?: number;
  /** Whether to leave out batches that are not complete, or that not every rank has. Default: false. */
  readonly dropLast?: boolean;
  readonly collate?: (samples: readonly Sample[]) => Sample;
}

/** Loader options of any kind of samples. */
type AnyLoader = Omit<LoaderOptions<ArrayTree>, 'dataset' | 'collate'> & {
  readonly dataset: object;
  readonly collate?: (...inputs: never[]) => unknown;
};

/** The rules of `LoaderOptions`. */
const loaderRules: OptionRules<AnyLoader> = {
  dataset: option.required(option.object('a dataset')),
  batchSize: option.integer(1),
  shuffle: option.flag,
  seed: option.count,
  dropLast: option.flag,
  collate: option.callback(),
};

/** How ranks share out batches. */
export interface Shards {
  readonly ranks: number;
  readonly rank: number;
  /** The rows of a batch of one rank. */
  readonly batchSize: number;
  readonly dropLast: boolean;
  /** Whether the last batches are filled up from the first ones, so that all ranks have equally many full batches. */
  readonly evenBatches: boolean;
}

/**
 * The positions of the order that a rank has, as BatchSamplerShard of accelerate: batches go to the ranks in turns. Returns them
 * in the order in which the rank takes them, as many as `batchSize` for a batch.
 */
export function shardOf(length: number, shards: Shards): readonly number[] {
  const { ranks, rank, batchSize, dropLast, evenBatches } = shards;
  const round = ranks * batchSize;
  const whole = Math.floor(length / round) * round;
  const positions: number[] = [];
  const take = (start: number, end: number): void => {
    for (let position = start; position < end; position++) positions.push(position);
  };
  for (let start = 0; start < whole; start += round) {
    take(start + rank * batchSize, start + (rank + 1) * batchSize);
  }
  const left = length - whole;
  if (left === 0 || dropLast) return positions;
  const first = whole + rank * batchSize;
  take(first, first + batchSize);
  return evenBatches
    ? positions.map((position) => filledPosition(position, length))
    : positions.filter((position) => position < length);
}

/** Positions after the end are filled up with the first ones, again and again. */
function filledPosition(position: number, length: number): number {
  return position < length ? position : (position - length) % length;
}

/** The share of a rank, as a sampler. */
class ShardedSampler {
  readonly length: number;
  readonly isUneven: boolean;
  readonly settings: Readonly<Record<string, string | number | boolean>>;
  readonly #items: number;
  readonly #shards: Shards;
  readonly #shuffle: boolean;
  readonly #seed: number;
  #epoch = 0;

  constructor(
    items: number,
    shards: Shards,
    { shuffle = false, seed = 0 }: Pick<LoaderOptions<ArrayTree>, 'shuffle' | 'seed'>,
  ) {
    this.#items = items;
    this.#shards = shards;
    const { ranks, evenBatches } = shards;
    this.isUneven = !evenBatches;
    this.settings = { kind: 'batches in turns', length: items, shuffle, seed, ranks, evenBatches };
    this.#shuffle = shuffle;
    this.#seed = seed;
    this.length = shardOf(items, shards).length;
  }

  setEpoch(epoch: number): void {
    this.#epoch = epoch;
  }

  *[Symbol.iterator](): IterableIterator<number> {
    const order = this.#shuffle
      ? new Generator(this.#seed + this.#epoch).randperm(this.#items)
      : null;
    for (const position of shardOf(this.#items, this.#shards)) yield order?.[position] ?? position;
  }
}

/** What a loader tells its accelerator. */
export interface LoaderProgress {
  /** Whether the batch that was given last is the last one of its epoch. */
  isLast: boolean;
  /** The rows of all ranks in a last round that is not complete. 0: the last round is complete. */
  remainder: number;
}

/** The rank of a loader, and how ranks share out the batches. */
export interface LoaderPlace extends Omit<Shards, 'batchSize' | 'dropLast'> {
  /** Whether ranks have parts of each batch, and not whole batches in turns. */
  readonly splitBatches: boolean;
}

/** A loader that gives each rank its batches, and says when the last one has come. */
export class PreparedLoader<Sample extends ArrayTree> implements AsyncIterable<Sample> {
  readonly #loader: data.DataLoader<Sample>;
  readonly #progress: LoaderProgress;
  readonly #remainder: number;

  constructor(
    options: LoaderOptions<Sample>,
    { ranks, rank, evenBatches, splitBatches }: LoaderPlace,
    progress: LoaderProgress,
  ) {
    checkOptions<AnyLoader>('prepare() with a dataLoader', options, loaderRules);
    const { dataset, batchSize: given = 1, dropLast = false, collate } = options;
    const batchSize = splitBatches ? given / ranks : given;
    if (!Number.isInteger(batchSize)) {
      throw new ConfigError(
        {
          asked: `batches of ${given} rows that ${ranks} ranks split`,
          found: `${ranks} does not divide ${given}`,
          todo: 'Use a multiple of the number of ranks, or leave splitBatches out',
        },
        { batchSize: given, ranks },
      );
    }
    const shards = { ranks, rank, batchSize, dropLast, evenBatches };
    this.#progress = progress;
    this.#remainder = dropLast ? 0 : dataset.length % (ranks * batchSize);
    this.#loader = new data.DataLoader<Sample>({
      dataset,
      batchSize,
      sampler: new ShardedSampler(dataset.length, shards, options),
      dropLast,
      ...(collate === undefined ? {} : { collate }),
    });
  }

  /** The number of batches of this rank in an epoch. */
  get length(): number {
    return this.#loader.length;
  }

  setEpoch(epoch: number): void {
    this.#loader.setEpoch(epoch);
  }

  /** The place in the data, as plain data. */
  state(): ReturnType<data.DataLoader<Sample>['state']> {
    return this.#loader.state();
  }

  /** Continues from a place. Throws ConfigError for that of other data. */
  load(state: unknown): void {
    this.#loader.load(state);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Sample, void, void> {
    this.#progress.isLast = false;
    this.#progress.remainder = 0;
    for await (const batch of this.#loader) {
      const isLast = this.#loader.state().batchesSeen >= this.#loader.length;
      this.#progress.isLast = isLast;
      this.#progress.remainder = isLast ? this.#remainder : 0;
      yield batch;
    }
  }
}
