import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { OpenCursor } from './cursor.ts';
import { EpochPlace, noItems, type RankStreamState } from './epoch-place.ts';
import { readShare } from './read-share.ts';

/** Options of `Stream.split`. */
export interface SplitOptions {
  readonly rank: number;
  /** The number of ranks that take turns. */
  readonly numReplicas: number;
  /**
   * Whether the last items are left out if the number of ranks does not divide their number. Otherwise, some ranks have
   * an item more than others (`dist.joinBatches` trains with that). Default: false.
   */
  readonly dropLast?: boolean;
  /** The number of items that are made before they are needed. Default: 0. */
  readonly prefetch?: number;
}

const splitRules: OptionRules<SplitOptions> = {
  rank: option.required(option.count),
  numReplicas: option.required(option.integer(1)),
  dropLast: option.flag,
  prefetch: option.count,
};

/** The options with their defaults. Throws ConfigError for a rank that is not one of the replicas. */
export function checkSplit(of: string, options: SplitOptions): Required<SplitOptions> {
  checkOptions(of, options, splitRules);
  const { rank, numReplicas, dropLast = false, prefetch = 0 } = options;
  if (rank < numReplicas) return { rank, numReplicas, dropLast, prefetch };
  throw new ConfigError(
    {
      asked: `the items of rank ${rank} of a stream`,
      found: `${numReplicas} ranks, from 0 to ${numReplicas - 1}`,
      todo: 'Pass the rank and the size of one process group',
    },
    { rank, numReplicas },
  );
}

/**
 * This rank's items of a stream: rank r has the items r, r + R, r + 2R, ... Each iteration is one epoch, which the next
 * one follows. All ranks together have each item once.
 */
export class RankStream<T> implements AsyncIterable<T> {
  readonly #open: OpenCursor<T>;
  readonly #options: Required<SplitOptions>;
  readonly #at = new EpochPlace();

  constructor(open: OpenCursor<T>, options: SplitOptions) {
    this.#open = open;
    this.#options = checkSplit('Stream.split', options);
  }

  /** The number of the present epoch. Between epochs, the number of the next one. */
  get epoch(): number {
    return this.#at.epoch;
  }

  /** Makes the next iteration this epoch, from its beginning, or from where `load` has put it. */
  setEpoch(epoch: number): void {
    this.#at.setEpoch(epoch);
  }

  /** The place after the items that were handed out. Items that were made before they were needed do not count. */
  state(): RankStreamState {
    return this.#at.state();
  }

  /**
   * The next iteration goes on after the items that the ranks had when `state` was saved, on any number of ranks. All
   * ranks must have had equally many. Throws ConfigError for what is no state; the iteration does for one of another
   * stream.
   */
  load(state: unknown): void {
    this.#at.load(state);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, undefined, undefined> {
    const { epoch, from } = this.#at.begin();
    let hasItems = from.place !== null || from.skip > 0;
    const share = { ...this.#options, worker: 0, workers: 1 };
    for await (const { value, place, isLast } of readShare(this.#open, epoch, from, share)) {
      hasItems = true;
      this.#at.move(epoch, isLast ? undefined : { place, skip: 0 });
      yield value;
    }
    if (!hasItems) throw noItems(this.#options);
    this.#at.move(epoch, undefined);
    return undefined;
  }
}
