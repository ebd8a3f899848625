import {
  checkOptions,
  ConfigError,
  DataError,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { z } from 'zod';
import { anyState, type Cursor, type Lazy, type OpenCursor, type StreamState } from './cursor.ts';

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

const place = z.object({
  version: z.literal(1),
  epoch: z.int().min(0),
  /** Null: the beginning of the epoch. */
  place: anyState,
});

/** The place of a stream that ranks share out. It is the same on every rank, and for any number of ranks. */
export type RankStreamState = {
  readonly version: 1;
  readonly epoch: number;
  readonly place: StreamState;
};

/**
 * This rank's items of a stream: rank r has the items r, r + R, r + 2R, ... Each iteration is one epoch, which the next
 * one follows. All ranks together have each item once.
 */
export class RankStream<T> implements AsyncIterable<T> {
  readonly #open: OpenCursor<T>;
  readonly #options: Required<SplitOptions>;
  #epoch = 0;
  #place: StreamState = null;
  #isRead = false;

  constructor(open: OpenCursor<T>, options: SplitOptions) {
    checkOptions('Stream.split', options, splitRules);
    const { rank, numReplicas, dropLast = false, prefetch = 0 } = options;
    if (rank >= numReplicas) {
      throw new ConfigError(
        {
          asked: `the items of rank ${rank} of a stream`,
          found: `${numReplicas} ranks, from 0 to ${numReplicas - 1}`,
          todo: 'Pass the rank and the size of one process group',
        },
        { rank, numReplicas },
      );
    }
    this.#open = open;
    this.#options = { rank, numReplicas, dropLast, prefetch };
  }

  /** The number of the present epoch. Between epochs, the number of the next one. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Makes the next iteration this epoch, from its beginning, or from where `load` has put it. */
  setEpoch(epoch: number): void {
    checkOptions('RankStream.setEpoch', { epoch }, { epoch: option.required(option.count) });
    if (epoch === this.#epoch && !this.#isRead) return;
    this.#epoch = epoch;
    this.#place = null;
    this.#isRead = false;
  }

  /** The place after the items that were handed out. Items that were made before they were needed do not count. */
  state(): RankStreamState {
    return { version: 1, epoch: this.#epoch, place: this.#place };
  }

  /**
   * The next iteration goes on after the items that the ranks had when `state` was saved, on any number of ranks. All
   * ranks must have had equally many. Throws ConfigError for what is no state; the iteration does for one of another
   * stream.
   */
  load(state: unknown): void {
    const parsed = place.safeParse(state);
    if (!parsed.success) throw noState(parsed.error.issues[0]?.message ?? 'another form');
    this.#epoch = parsed.data.epoch;
    this.#place = parsed.data.place;
    this.#isRead = false;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, undefined, undefined> {
    const { prefetch } = this.#options;
    // As with a data loader, an epoch that was left before its end is not gone on with, unless `load` says so.
    if (this.#isRead) this.#move(this.#epoch, undefined);
    const epoch = this.#epoch;
    this.#isRead = true;
    const cursor = this.#open(epoch, this.#place ?? undefined);
    const ahead: {
      readonly item: Promise<T>;
      readonly place: StreamState;
      readonly isLast: boolean;
    }[] = [];
    let isOver = false;
    let hasItems = this.#place !== null;
    try {
      for (;;) {
        while (!isOver && ahead.length <= prefetch) {
          const round = await this.#round(cursor);
          isOver = round.isLast;
          if (round.own === undefined) continue;
          const item = round.own();
          // The failure of an item comes when its turn does. Until then, it is not an unhandled rejection.
          item.catch(() => {});
          ahead.push({ item, place: cursor.state(), isLast: round.isLast });
        }
        const next = ahead.shift();
        if (next === undefined) break;
        const value = await next.item;
        hasItems = true;
        this.#move(epoch, next.isLast ? undefined : next.place);
        yield value;
      }
    } finally {
      await cursor.close();
      await Promise.allSettled(ahead.map(({ item }) => item));
    }
    if (!hasItems) throw noItems(this.#options);
    this.#move(epoch, undefined);
    return undefined;
  }

  /** Takes an item for each rank. With fewer items than ranks, the round is the last one. */
  async #round(
    cursor: Cursor<T>,
  ): Promise<{ readonly own: Lazy<T> | undefined; readonly isLast: boolean }> {
    const { rank, numReplicas, dropLast } = this.#options;
    let own: Lazy<T> | undefined;
    for (let turn = 0; turn < numReplicas; turn++) {
      const item = await cursor.next();
      if (item === undefined) return { own: dropLast ? undefined : own, isLast: true };
      if (turn === rank) own = item;
    }
    return { own, isLast: false };
  }

  /** Notes a place of an epoch, or its end. */
  #move(epoch: number, place: StreamState | undefined): void {
    this.#epoch = place === undefined ? epoch + 1 : epoch;
    this.#place = place ?? null;
    this.#isRead = place !== undefined;
  }
}

function noState(found: string): ConfigError {
  return new ConfigError({
    asked: 'to continue a stream',
    found: `a value that is no state of one: ${found}`,
    todo: 'Pass what state() returned, unchanged',
  });
}

function noItems({ rank, numReplicas, dropLast }: Required<SplitOptions>): DataError {
  return new DataError(
    {
      asked: `an epoch of a stream on rank ${rank} of ${numReplicas}`,
      found: `fewer items than ranks${dropLast ? ', which are left out (dropLast)' : ''}`,
      todo: 'Use more data or fewer ranks, or give this rank no part in the epoch',
    },
    { rank, numReplicas, dropLast },
  );
}
