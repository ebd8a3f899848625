import type { Generation, GenerationEnd, GenerationFailure, HostChange } from './generation.ts';

/** The next generation, or how the run ended. */
export type NextGeneration =
  | { readonly kind: 'generation'; readonly generation: Generation }
  | { readonly kind: 'over'; readonly end: GenerationEnd };

/** The point from which ranks start again. */
export type ResumePoint =
  /** Ranks start from the checkpoint in the directory, or from the beginning if it is undefined. */
  | { readonly kind: 'from'; readonly directory: string | undefined }
  /** The run is over, because no usable checkpoint is left. */
  | { readonly kind: 'nowhere' };

/** Finds the resume point before each generation. `failure` ended the previous generation. */
export type FindResume = (failure: GenerationFailure | undefined) => Promise<ResumePoint>;

/** Whether ranks that ended in this way are started again while the budget lasts. */
export function mayStartAgain(end: GenerationEnd): boolean {
  return end.kind === 'failed' && end.failure.kind !== 'mistake';
}

/**
 * Lets the hosts of a run agree on who takes part, from when, and how it ended. Each host's launcher takes part in one
 * generation after another.
 */
export interface Rendezvous {
  /** Waits for the next generation. Call this when no rank of this host runs. Rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<NextGeneration>;
  /** Call this when all ranks of this host have ended without a failure. */
  finish(generation: Generation): Promise<void>;
  /** Says how the generation ended for this host. The first end that any host reports holds. */
  end(generation: Generation, end: GenerationEnd): Promise<void>;
  /** Settles when the generation is over for all hosts. */
  ended(generation: Generation): Promise<GenerationEnd>;
  /**
   * Whether the host at `place` has given no sign of life for so long that waiting for its report makes no sense. The
   * host may come back, so this alone ends nothing.
   */
  isQuiet(generation: Generation, place: number): boolean;
  /** Takes one restart of the budget, for one rank that is replaced while the others go on. False if none is left. */
  takeRestart(): boolean;
  /** Whether this host starts and ends generations: the only one, or the one that serves the store. */
  readonly leads: boolean;
  /**
   * Hears of the hosts that go and come while the generation goes on, also of those that have since it began. Only the
   * host that leads calls it.
   */
  onHosts(listener: (change: HostChange) => void): void;
  /** Tells the other hosts that this one leaves. */
  close(): Promise<void>;
}

/** How long hosts wait for each other. */
export interface RendezvousTimes {
  /** How long hosts wait for more hosts after the least number has come. */
  readonly lastCallMs: number;
  /** How long hosts wait for the least number of hosts. */
  readonly joinTimeoutMs: number;
  /** The time between two signs of life of a host. */
  readonly heartbeatMs: number;
  /** A host that gives no sign of life for this long counts as lost. */
  readonly heartbeatLimitMs: number;
}

/** The times of torchrun, apart from its heartbeats, which come every 5 s. */
export const defaultTimes: RendezvousTimes = {
  lastCallMs: 30_000,
  joinTimeoutMs: 600_000,
  heartbeatMs: 250,
  heartbeatLimitMs: 2000,
};
