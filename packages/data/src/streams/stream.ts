import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { Rows } from '../datasets/rows.ts';
import { lazy, type Lazy, type OpenCursor } from './cursor.ts';
import { openMixed } from './mix.ts';
import { RankStream, type SplitOptions } from './rank-stream.ts';
import { openShuffled } from './shuffle.ts';
import { openIterable, openRows } from './sources.ts';

/** Options of `Stream.ofRows`. */
export interface RowStreamOptions {
  /** Whether all rows come in random order, another one in each epoch. It takes 4 bytes a row. Default: false. */
  readonly shuffle?: boolean;
  /** The seed of the order. It must be the same on all ranks. Default: 0. */
  readonly seed?: number;
}

/** Options of `Stream.shuffle`. */
export interface ShuffleOptions {
  /** The number of items that are held, and given in random order. */
  readonly bufferSize: number;
  /** The seed of the order. It must be the same on all ranks. Default: 0. */
  readonly seed?: number;
}

/** Options of `Stream.mix`. */
export interface MixOptions {
  /**
   * `all`: until all streams have ended, so that each item comes once. `first`: until one has, so that the shares are
   * the weights to the end. Default: all.
   */
  readonly until?: 'all' | 'first';
  /** The seed of the draws. It must be the same on all ranks. Default: 0. */
  readonly seed?: number;
}

const rowRules: OptionRules<RowStreamOptions> = { shuffle: option.flag, seed: option.count };
const shuffleRules: OptionRules<ShuffleOptions> = {
  bufferSize: option.required(option.integer(1)),
  seed: option.count,
};
const mixRules: OptionRules<MixOptions> = {
  until: option.oneOf('all', 'first'),
  seed: option.count,
};
const batchRules = { size: option.required(option.integer(1)), dropLast: option.flag };

/**
 * Items that come one after another, in an order that is the same on all ranks. `split` gives each rank its items. What
 * is made of an item (`map`, `batch`) is made on its rank alone, when it is needed; `filter` runs on all ranks, because
 * they must agree on what is left.
 */
export class Stream<T> {
  readonly #open: OpenCursor<T>;

  private constructor(open: OpenCursor<T>) {
    this.#open = open;
  }

  /** The rows of a file. Each rank reads its own ones only. */
  static ofRows<Row>(rows: Rows<Row>, options: RowStreamOptions = {}): Stream<Row> {
    checkOptions('Stream.ofRows', options, rowRules);
    const { shuffle = false, seed = 0 } = options;
    return new Stream(openRows(rows, { shuffle, seed }));
  }

  /**
   * What a function returns for an epoch, as a generator. It must be the same on all ranks, and for the same epoch. All
   * ranks read all items.
   */
  static of<Item>(open: (epoch: number) => Iterable<Item> | AsyncIterable<Item>): Stream<Item> {
    checkOptions('Stream.of', { open }, { open: option.required(option.callback()) });
    return new Stream(openIterable(open));
  }

  /** Takes each item from one of several streams, which is drawn by their weights. */
  static mix<Item>(
    parts: readonly { readonly stream: Stream<Item>; readonly weight: number }[],
    options: MixOptions = {},
  ): Stream<Item> {
    checkOptions('Stream.mix', options, mixRules);
    if (parts.length === 0 || parts.some(({ weight }) => !(weight > 0 && weight < Infinity))) {
      throw new ConfigError({
        asked: `a mixture of ${parts.length} streams`,
        found: 'no streams, or a weight that is no number above 0',
        todo: 'Give streams with weights: [{ stream, weight: 0.7 }, { stream: other, weight: 0.3 }]',
      });
    }
    const { until = 'all', seed = 0 } = options;
    const opened = parts.map(({ stream, weight }) => ({ open: stream.#open, weight }));
    return new Stream(openMixed(opened, { until, seed }));
  }

  /** Makes another item of each item. An item is passed on as it is made, so it must not be kept and changed. */
  map<Next>(make: (item: T) => Next | Promise<Next>): Stream<Next> {
    return this.#transformed((next) => async () => {
      const item = await next();
      return item === undefined ? undefined : lazy(async () => make(await item()));
    });
  }

  /** Keeps the items for which `keep` is true. All ranks make all items before this one. */
  filter(keep: (item: T) => boolean | Promise<boolean>): Stream<T> {
    return this.#transformed((next) => async () => {
      for (;;) {
        const item = await next();
        if (item === undefined || (await keep(await item()))) return item;
      }
    });
  }

  /** Joins `size` neighbouring items. The last items may be fewer; with `dropLast`, they are then left out. */
  batch(size: number, options: { readonly dropLast?: boolean } = {}): Stream<readonly T[]> {
    checkOptions('Stream.batch', { ...options, size }, batchRules);
    const { dropLast = false } = options;
    return this.#transformed((next) => async () => {
      const items: Lazy<T>[] = [];
      while (items.length < size) {
        const item = await next();
        if (item === undefined) break;
        items.push(item);
      }
      if (items.length === 0 || (dropLast && items.length < size)) return undefined;
      return lazy(() => Promise.all(items.map((item) => item())));
    });
  }

  /**
   * Holds items in a buffer and gives them in random order, and then the next ones: an item moves by at most the size of
   * the buffer. Rows of a file can be put into one random order as a whole (`Stream.ofRows`).
   */
  shuffle(options: ShuffleOptions): Stream<T> {
    checkOptions('Stream.shuffle', options, shuffleRules);
    const { bufferSize, seed = 0 } = options;
    return new Stream(openShuffled(this.#open, { bufferSize, seed }));
  }

  /** The items of one rank, which can be iterated over. */
  split(options: SplitOptions): RankStream<T> {
    return new RankStream(this.#open, options);
  }

  /** A stream whose place is that of this one. */
  #transformed<Next>(
    transform: (next: () => Promise<Lazy<T> | undefined>) => () => Promise<Lazy<Next> | undefined>,
  ): Stream<Next> {
    const open = this.#open;
    return new Stream((epoch, state) => {
      const cursor = open(epoch, state);
      return {
        next: transform(() => cursor.next()),
        state: () => cursor.state(),
        close: () => cursor.close(),
      };
    });
  }
}
