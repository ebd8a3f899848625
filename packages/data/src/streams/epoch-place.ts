import { checkOptions, ConfigError, DataError, option } from '@shardwise/core/extend';
import { z } from 'zod';
import { anyState, type StreamState } from './cursor.ts';
import type { StreamPlace } from './read-share.ts';

const saved = z.object({
  version: z.literal(1),
  epoch: z.int().min(0),
  place: anyState,
  skip: z.int().min(0),
});

/** The place of a stream that ranks divide. It is the same on every rank, and for any number of ranks and workers. */
export type RankStreamState = {
  readonly version: 1;
  readonly epoch: number;
  /** Null: the beginning of the epoch. */
  readonly place: StreamState;
  /** The number of items after the place that have been handed out, on all ranks together. */
  readonly skip: number;
};

const beginning: StreamPlace = { place: null, skip: 0 };

/** Where a rank is in a stream: the epoch, and the place in it. */
export class EpochPlace {
  #epoch = 0;
  #place: StreamPlace = beginning;
  #isRead = false;

  get epoch(): number {
    return this.#epoch;
  }

  state(): RankStreamState {
    return { version: 1, epoch: this.#epoch, ...this.#place };
  }

  /** Throws ConfigError for what is no state. */
  load(state: unknown): void {
    const parsed = saved.safeParse(state);
    if (!parsed.success) throw noState(parsed.error.issues[0]?.message ?? 'another form');
    const { epoch, place, skip } = parsed.data;
    this.#epoch = epoch;
    this.#place = { place, skip };
    this.#isRead = false;
  }

  /** Makes the next iteration this epoch, from its beginning, or from where `load` has put it. */
  setEpoch(epoch: number): void {
    checkOptions('setEpoch of a stream', { epoch }, { epoch: option.required(option.count) });
    if (epoch !== this.#epoch || this.#isRead) this.#begin(epoch);
  }

  /**
   * Begins an iteration. As with a data loader, an epoch that was left before its end is not gone on with, unless `load`
   * says so.
   */
  begin(): { readonly epoch: number; readonly from: StreamPlace } {
    if (this.#isRead) this.#begin(this.#epoch + 1);
    this.#isRead = true;
    return { epoch: this.#epoch, from: this.#place };
  }

  /** Notes a place of an epoch, or its end. */
  move(epoch: number, place: StreamPlace | undefined): void {
    if (place === undefined) {
      this.#begin(epoch + 1);
      return;
    }
    this.#epoch = epoch;
    this.#place = place;
    this.#isRead = true;
  }

  #begin(epoch: number): void {
    this.#epoch = epoch;
    this.#place = beginning;
    this.#isRead = false;
  }
}

/** The error for a rank that has no item in a whole epoch. */
export function noItems(share: {
  readonly rank: number;
  readonly numReplicas: number;
  readonly dropLast: boolean;
}): DataError {
  const { rank, numReplicas, dropLast } = share;
  return new DataError(
    {
      asked: `an epoch of a stream on rank ${rank} of ${numReplicas}`,
      found: `fewer items than ranks${dropLast ? ', which are left out (dropLast)' : ''}`,
      todo: 'Use more data or fewer ranks, or give this rank no part in the epoch',
    },
    { rank, numReplicas, dropLast },
  );
}

function noState(found: string): ConfigError {
  return new ConfigError({
    asked: 'to continue a stream',
    found: `a value that is no state of one: ${found}`,
    todo: 'Pass what state() returned, unchanged',
  });
}
