import type { VectorClock } from './vector-clock.ts';

/** What a server has counted since it started. */
export interface ShardStatistics {
  readonly updates: number;
  /** Pushes that arrived a second time and counted once. */
  readonly duplicates: number;
  /** Pushes that arrived too late for their step and were dropped. */
  readonly late: number;
  /** The bytes of arrays that were received, and of those that were sent. */
  readonly receivedBytes: number;
  /** The received bytes that arrived while their worker still computed other gradients. */
  readonly earlyBytes: number;
  readonly sentBytes: number;
  /** The number of pushes, by the number of updates of other workers since the pushing worker had read the values. */
  readonly staleness: Readonly<Record<number, number>>;
  /** The number of answers, by the number of steps that the worker was ahead of the slowest one. */
  readonly lead: Readonly<Record<number, number>>;
  /** The milliseconds that answers waited for other workers, by worker. */
  readonly waitedMs: Readonly<Record<number, number>>;
  /** Whether another server has a copy of the range now. */
  readonly isReplicated: boolean;
  /** The number of steps of each worker. */
  readonly clock: ReturnType<VectorClock['toJSON']>;
}

/** The counters of a server. */
export class ShardCounts {
  updates = 0;
  duplicates = 0;
  late = 0;
  receivedBytes = 0;
  earlyBytes = 0;
  sentBytes = 0;
  readonly staleness: Map<number, number> = new Map();
  readonly lead: Map<number, number> = new Map();
  readonly waitedMs: Map<number, number> = new Map();

  static add(counts: Map<number, number>, key: number, amount = 1): void {
    counts.set(key, (counts.get(key) ?? 0) + amount);
  }

  statistics(clock: VectorClock): Omit<ShardStatistics, 'isReplicated'> {
    const { updates, duplicates, late, receivedBytes, earlyBytes, sentBytes } = this;
    return {
      updates,
      duplicates,
      late,
      receivedBytes,
      earlyBytes,
      sentBytes,
      staleness: Object.fromEntries(this.staleness),
      lead: Object.fromEntries(this.lead),
      waitedMs: Object.fromEntries(this.waitedMs),
      clock: clock.toJSON(),
    };
  }
}
