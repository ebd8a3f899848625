import type { AbortCause } from '../call/failure.ts';

/** Wakes ranks whose event loops sleep; a rank that wants it has set its bell in the memory. */
export interface Alarm {
  /** Called when the bell of `rank` has been cleared. */
  wake(rank: number): void;
}

/**
 * How one rank sleeps and what it sees of the others: what differs between ranks that are threads
 * and ranks that are processes.
 */
export interface Presence extends Alarm {
  /** Gives this core to others for at most `limitMs`, or until a rank wakes this one. */
  nap(limitMs: number): void;
  /** From now on `onWake` is called when a rank wakes this one, or sometimes without cause. */
  listen(onWake: () => void): void;
  /** Ends listening; must be called before listening again. */
  stopListening(): void;
  /** How often `findFailure` has something to look for while this rank waits. */
  readonly lookEveryMs: number;
  /** Why the world cannot go on, such as the death of a rank. */
  findFailure(): AbortCause | undefined;
  /** This rank has closed all its groups. */
  leave(): void;
}
