import type { GeneratorState } from '../random/generator-state.ts';
import { Generator } from '../random/generator.ts';
import { ConfigError, DataError } from '../spec/errors.ts';
import { record } from '../timeline.ts';
import type { Sampler } from '../spec/sampler.ts';
import { BatchSampler } from './batch-sampler.ts';
import { BatchIterator } from './batch-iterator.ts';
import { type BatchSource, type Collate, endOfData, LocalSource } from './batch-source.ts';
import { collate } from './collate.ts';
import type { Dataset } from './dataset.ts';
import { isIterableDataset, type IterableDataset } from './iterable-dataset.ts';
import {
  checkSameSettings,
  type LoaderSettings,
  type LoaderState,
  parseLoaderState,
} from './loader-state.ts';
import type { ArrayTree } from '../tensor/nd-array.ts';
import { RandomSampler } from './random-sampler.ts';
import { type ResumableSampler, resumable } from './resumable-sampler.ts';
import { SequentialSampler } from './sequential-sampler.ts';
import { StreamSource } from './stream-source.ts';
import type { WorkerDataset } from './worker-dataset.ts';
import { WorkerSource } from './worker-source.ts';
import { checkByRules, requireIntegers } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule, OptionRules } from '../base/option-rules.ts';

/** Options of `DataLoader`. */
export interface DataLoaderOptions<Sample extends ArrayTree> {
  /**
   * The dataset. With `workers` it is the description of a dataset that each worker builds. It can also be a stream.
   * The batches of a stream have its order, and cannot be made with a sampler or workers.
   */
  readonly dataset: Dataset<Sample> | IterableDataset<Sample> | WorkerDataset;
  /** The number of items of a batch. Default: 1. */
  readonly batchSize?: number;
  /**
   * Whether to leave out the last batch if it has fewer rows. Default: false. A batch of another size costs a second
   * execution plan, which is made when the batch first comes.
   */
  readonly dropLast?: boolean;
  /** Determines which items are visited, and in which order. Default: all items, in order. */
  readonly sampler?: Sampler;
  /** Whether to visit all items in random order, which differs between epochs. Default: false. */
  readonly shuffle?: boolean;
  /** Together with the epoch, it determines the order of `shuffle`. Default: 0. */
  readonly seed?: number;
  /** Draws the order of `shuffle`, as torch's DataLoader does with this generator. */
  readonly generator?: Generator;
  /** Makes a batch of samples on this thread; it cannot be used with workers. Default: stacks them. */
  readonly collate?: Collate<Sample>;
  /** The number of batches that are made before they are needed. Default: 2 for each worker, 0 without workers. */
  readonly prefetch?: number;
  /** The number of threads that make batches. Default: 0, which means this thread. */
  readonly workers?: number;
}

/** The rule for datasets. It refuses an array, which has a length and items, but no get(). */
const aDataset: OptionRule<Dataset | IterableDataset | WorkerDataset> = {
  fits: (value): value is Dataset | IterableDataset | WorkerDataset =>
    typeof value === 'object' &&
    value !== null &&
    (('get' in value && typeof value.get === 'function') ||
      'module' in value ||
      isIterableDataset(value)),
  expected:
    'a dataset: { length, get(index) }, an ArrayDataset, or { module, length } for workers; or a stream, which can be iterated over and has no length',
};

const loaderRules: OptionRules<DataLoaderOptions<ArrayTree>> = {
  dataset: option.required(aDataset),
  batchSize: option.integer(1),
  dropLast: option.flag,
  sampler: option.object('a sampler'),
  shuffle: option.flag,
  seed: option.count,
  generator: option.instanceOf(Generator),
  collate: option.callback(),
  prefetch: option.count,
  workers: option.count,
};

/** An epoch, and the number of batches of it that have been handed out. */
interface Cursor {
  readonly epoch: number;
  batchesSeen: number;
  begun: boolean;
  /**
   * The state of the sampler's generator at the start of the epoch. Null before it is known, and without a generator.
   */
  generator: GeneratorState | null;
}

/**
 * Makes batches of a dataset. Each iteration is one epoch. Epochs count from 0, unless `setEpoch` or `load` sets
 * another number, which the sampler is told. Batches come in the order of the sampler, for any number of workers.
 * Iterating throws DataError if an epoch has no batch, because a loop up to a step would never end. Only a rank for which
 * an uneven sampler has none of the dataset's items has an epoch without batches.
 */
export class DataLoader<Sample extends ArrayTree> implements AsyncIterable<Sample> {
  readonly #options: DataLoaderOptions<Sample>;
  readonly #batches: BatchSampler;
  readonly #sampler: ResumableSampler;
  readonly #prefetch: number;
  readonly #workers: number;
  #cursor: Cursor = cursorAt(0);

  constructor(options: DataLoaderOptions<Sample>) {
    checkByRules('DataLoader', options, loaderRules);
    const { batchSize = 1, dropLast = false, workers = 0, prefetch = 2 * workers } = options;
    checkConflicts(options);
    this.#options = options;
    this.#sampler = samplerOf(options);
    this.#batches = new BatchSampler(this.#sampler, batchSize, dropLast);
    this.#prefetch = prefetch;
    this.#workers = workers;
  }

  /** The number of batches of an epoch. Throws ConfigError for a stream, whose end is not known. */
  get length(): number {
    if (this.#isStream) throw noLength();
    return this.#batches.length;
  }

  get #isStream(): boolean {
    return isIterableDataset(this.#options.dataset);
  }

  /** The number of the present epoch. Between epochs, the number of the next one. */
  get epoch(): number {
    return this.#cursor.epoch;
  }

  /** Makes the next iteration this epoch, from its start, or from where `load` has put it. */
  setEpoch(epoch: number): void {
    requireIntegers('a data loader', { epoch }, 0);
    if (this.#cursor.begun || this.#cursor.epoch !== epoch) this.#cursor = cursorAt(epoch);
  }

  /** The position after the batches that were handed out. Prefetched batches do not count. */
  state(): LoaderState {
    const { epoch, batchesSeen, generator } = this.#cursor;
    return {
      version: 1,
      epoch,
      batchesSeen,
      ...this.#settings(),
      generator: generator ?? this.#sampler.generator?.getState() ?? null,
    };
  }

  /**
   * The next iteration continues after the batches that `state` counts. With a DistributedSampler, another
   * number of ranks continues with the remaining items if all their batches together have the same size: what 4
   * ranks saved with a batchSize of 8 continues on 2 ranks with 16. Throws ConfigError if `state` is not a
   * state, or belongs to a loader with other batches (of all ranks), another length or another order.
   */
  load(state: unknown): void {
    const { epoch, batchesSeen: seen, generator, ...settings } = parseLoaderState(state);
    const own = this.#settings();
    checkSameSettings(settings, own);
    // With another number of ranks, an epoch may have fewer batches if a last small batch is left out. With an uneven
    // sampler, the rank that saved may have had more batches than this one.
    const { length } = this.#batches;
    const isSameRank = settings.numReplicas === own.numReplicas && this.#sampler.isUneven !== true;
    const batchesSeen = isSameRank ? seen : Math.min(seen, length);
    const drawn = generator === null ? 'without' : 'with';
    const draws = this.#sampler.generator === undefined ? 'without' : 'with';
    if (batchesSeen > length || drawn !== draws) {
      throw new ConfigError(
        {
          asked: `to continue after ${batchesSeen} batches of an epoch drawn ${drawn} a generator`,
          found: `an epoch of ${length} batches drawn ${draws} one`,
          todo: 'Use a data loader with the options of the saved one',
        },
        { batchesSeen, batches: length },
      );
    }
    this.#cursor = { epoch, batchesSeen, begun: false, generator };
  }

  [Symbol.asyncIterator](): BatchIterator<Sample> {
    return new BatchIterator(() => {
      if (this.#batches.length === 0) {
        const items = itemsOf(this.#options.dataset);
        const { isUneven = false, length } = this.#sampler;
        if (items === 0 || length > 0 || !isUneven) throw noBatches(items, this.#settings());
      }
      const source = this.#source();
      return { source, batches: this.#read(source) };
    });
  }

  async *#read(source: BatchSource<Sample>): AsyncGenerator<Sample, undefined, undefined> {
    const cursor = this.#begin();
    const wanted = this.#indices(cursor);
    const ahead: Promise<Sample | typeof endOfData>[] = [];
    try {
      for (;;) {
        while (ahead.length <= this.#prefetch) {
          const next = wanted.next();
          if (next.done === true) break;
          const batch = source.fetch(next.value);
          // The consumer gets the failure of a batch when the batch's turn comes. Until then, it is not an unhandled
          // rejection.
          batch.catch(() => {});
          ahead.push(batch);
        }
        const start = performance.now();
        const next = ahead.shift();
        if (next === undefined) break;
        const batch: Sample | typeof endOfData | undefined = await next;
        record('data', 'next batch', start);
        if (batch === endOfData) {
          if (cursor.batchesSeen === 0) throw emptyStream();
          break;
        }
        // A collate function in plain JavaScript may return nothing.
        if (batch === undefined) throw noBatch(cursor.batchesSeen);
        cursor.batchesSeen++;
        yield batch;
      }
    } finally {
      await source.close();
      await Promise.allSettled(ahead);
    }
    if (this.#cursor === cursor) this.#cursor = cursorAt(cursor.epoch + 1);
    return undefined;
  }

  #begin(): Cursor {
    if (this.#cursor.begun) this.#cursor = cursorAt(this.#cursor.epoch + 1);
    const cursor = this.#cursor;
    cursor.begun = true;
    return cursor;
  }

  /** The batches of indices that are still to come. */
  #indices(cursor: Cursor): IteratorObject<number[]> {
    const { generator } = this.#sampler;
    if (cursor.generator !== null) generator?.setState(cursor.generator);
    cursor.generator = generator?.getState() ?? null;
    // torch's loader draws a seed for its workers here, so the stream of the generator must advance in the same way.
    this.#options.generator?.random64();
    this.#sampler.setEpoch(cursor.epoch);
    return this.#batches[Symbol.iterator]().drop(cursor.batchesSeen);
  }

  #settings(): LoaderSettings {
    const { batchSize, dropLast } = this.#batches;
    const { settings: sampler, numReplicas = 1 } = this.#sampler;
    return { batchSize, numReplicas, dropLast, sampler };
  }

  #source(): BatchSource<Sample> {
    const { dataset, collate: stack = collate } = this.#options;
    if ('get' in dataset) return new LocalSource(dataset, stack);
    if ('module' in dataset) return new WorkerSource(dataset, this.#workers);
    const { batchSize, dropLast } = this.#batches;
    const { begun, batchesSeen } = this.#cursor;
    return new StreamSource(dataset, {
      batchSize,
      dropLast,
      collate: stack,
      skip: begun ? 0 : batchesSeen,
    });
  }
}

function noBatch(batch: number): DataError {
  return new DataError(
    {
      asked: `batch ${batch} of a data loader`,
      found: 'a collate function that returned undefined',
      todo: 'Return the batch from the collate function',
    },
    { batch },
  );
}

function emptyStream(): DataError {
  return new DataError({
    asked: 'an epoch of a stream',
    found:
      'not one whole batch: it has no items, or fewer than a batch with dropLast, or was read to its end before',
    todo: 'Give a dataset whose every iteration starts anew: an object with *[Symbol.iterator](), and not what a generator function returned',
  });
}

function noLength(): ConfigError {
  return new ConfigError({
    asked: 'the number of batches of a data loader',
    found: 'a stream, whose end nobody knows',
    todo: 'Count batches, or end the epoch yourself',
  });
}

function noBatches(
  items: number,
  { batchSize, numReplicas: ranks, dropLast, sampler }: LoaderSettings,
): DataError {
  const of = ranks === 1 ? '' : ` on each of ${ranks} ranks`;
  const isDropped = items > 0 && (dropLast || sampler['dropLast'] === true);
  return new DataError(
    {
      asked: `an epoch in batches of ${batchSize}${of}, with dropLast ${dropLast}`,
      found: `${items} items, which make no batch`,
      todo: isDropped
        ? 'Use a smaller batchSize, fewer ranks, or dropLast: false, also of the sampler'
        : 'Use a dataset and a sampler with items',
    },
    { items, ranks, batchSize, dropLast },
  );
}

function cursorAt(epoch: number): Cursor {
  return { epoch, batchesSeen: 0, begun: false, generator: null };
}

function samplerOf<Sample extends ArrayTree>(options: DataLoaderOptions<Sample>): ResumableSampler {
  const { dataset, sampler, shuffle = false, seed, generator } = options;
  if (sampler !== undefined) return resumable(sampler);
  if (isIterableDataset(dataset)) return streamSampler(dataset);
  const { length } = dataset;
  if (!shuffle) return new SequentialSampler(length);
  return new RandomSampler({
    length,
    ...(seed === undefined ? {} : { seed }),
    ...(generator === undefined ? {} : { generator }),
  });
}

function itemsOf(dataset: DataLoaderOptions<ArrayTree>['dataset']): number {
  return isIterableDataset(dataset) ? Number.POSITIVE_INFINITY : dataset.length;
}

/** A sampler for streams. Its length is infinite, and its indices are ignored. */
function streamSampler(dataset: IterableDataset): ResumableSampler {
  return {
    length: Number.POSITIVE_INFINITY,
    settings: { kind: 'stream' },
    setEpoch: (epoch) => dataset.setEpoch?.(epoch),
    *[Symbol.iterator]() {
      for (;;) yield 0;
    },
  };
}

/** Throws ConfigError if options contradict each other. */
function checkConflicts<Sample extends ArrayTree>(options: DataLoaderOptions<Sample>): void {
  const { dataset, sampler, shuffle = false, seed, generator, workers = 0 } = options;
  const { dropLast = false } = options;
  const described = 'module' in dataset;
  const isStream = isIterableDataset(dataset);
  const random = seed !== undefined || generator !== undefined;
  const conflicts: readonly (readonly [boolean, string, string])[] = [
    [
      isStream && (sampler !== undefined || shuffle || workers > 0),
      'a stream together with a sampler, shuffle or workers',
      'Leave them out: items come in the order of the stream',
    ],
    [
      dropLast && sampler !== undefined && resumable(sampler).isUneven === true,
      'dropLast together with a sampler that leaves no item out on any rank',
      'Leave out dropLast, or let the sampler repeat items',
    ],
    [
      sampler !== undefined && (shuffle || random),
      'a sampler together with shuffle, seed or generator',
      'Let the sampler shuffle, or leave it out',
    ],
    [random && !shuffle, 'a seed or generator without shuffle', 'Set shuffle: true'],
    [
      seed !== undefined && generator !== undefined,
      'a seed together with a generator',
      'Seed the generator instead',
    ],
    [
      workers > 0 && !described,
      `a dataset of this thread for ${workers} workers`,
      'Describe it as { module, export, arguments, length }, for each worker to build',
    ],
    [described && workers === 0, 'a dataset for workers, and none', 'Set workers to at least 1'],
    [
      described && options.collate !== undefined,
      'a collate function, which cannot be sent to workers',
      "Export it from the dataset's module, and name it there as collate",
    ],
  ];
  for (const [conflict, found, todo] of conflicts) {
    if (conflict) throw new ConfigError({ asked: 'a data loader', found, todo });
  }
}
