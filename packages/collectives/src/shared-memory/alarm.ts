import type { AbortCause } from '@shardwise/core/spec';

/** Wakes ranks whose event loops sleep. A rank that wants to be woken has set its bell in the memory. */
export interface Alarm {
  /** Called when the bell of `rank` has been cleared, to wake the rank. */
  wake(rank: number): void;
}

/**
 * How one rank sleeps and what it sees of the other ranks. Ranks that are threads and ranks that are processes
 * differ in this.
 */
export interface Presence extends Alarm {
  /** Gives this core to others for at most `limitMs` milliseconds, or until a rank wakes this one. */
  nap(limitMs: number): void;
  /** Calls `onWake` from now on when a rank wakes this one. Sometimes it is called without a cause. */
  listen(onWake: () => void): void;
  /** Ends listening. It must be called before the rank listens again. */
  stopListening(): void;
  /** Milliseconds between two calls of `findFailure` while this rank waits. */
  readonly lookEveryMs: number;
  /** Why the world cannot go on, such as the death of a rank. Undefined if it can. */
  findFailure(): AbortCause | undefined;
  /** Called when this rank has closed all its groups. */
  leave(): void;
}
