import type { Round, RoundEnd, RoundFailure } from './round.ts';

/** The next round, or how the run ended. */
export type NextRound =
  | { readonly kind: 'round'; readonly round: Round }
  | { readonly kind: 'over'; readonly end: RoundEnd };

/** Where ranks start again. */
export type ResumePoint =
  /** Ranks start from the checkpoint in the directory; from the beginning where there is none. */
  | { readonly kind: 'from'; readonly directory: string | undefined }
  /** The run is over: no checkpoint that could help is left. */
  | { readonly kind: 'nowhere' };

/** Looks for it before each round; `failure` ended the one before. */
export type FindResume = (failure: RoundFailure | undefined) => Promise<ResumePoint>;

/** Whether ranks that failed so are started again while the budget lasts. */
export function mayStartAgain(end: RoundEnd): boolean {
  return end.kind === 'failed' && end.failure.kind !== 'mistake';
}

/**
 * Where the hosts of a run agree on who takes part, from when, and how it ended. Each host's launcher
 * takes part in one round after another.
 */
export interface Rendezvous {
  /** To be called when no rank of this host runs. Rejects with the signal's reason. */
  next(signal: AbortSignal): Promise<NextRound>;
  /** To be called when all ranks of this host have ended well. */
  finish(round: Round): Promise<void>;
  /** What this host says of how the round ended; what was said first holds. */
  end(round: Round, end: RoundEnd): Promise<void>;
  /** Settles when the round is over for all hosts. */
  ended(round: Round): Promise<RoundEnd>;
  /**
   * Whether the host at `place` has given no sign of life for so long that its word is not worth
   * waiting for; it may yet come back, so this alone ends nothing.
   */
  isQuiet(round: Round, place: number): boolean;
  /** Takes leave of the other hosts. */
  close(): Promise<void>;
}

/** How long hosts wait for each other. */
export interface RendezvousTimes {
  /** How long hosts wait for more hosts, once the least number has come. */
  readonly lastCallMs: number;
  /** How long hosts wait for the least number of hosts. */
  readonly joinTimeoutMs: number;
  /** The time between two signs of life of a host. */
  readonly heartbeatMs: number;
  /** After so long without a sign of life, a host counts as lost. */
  readonly heartbeatLimitMs: number;
}

/** The times of torchrun, apart from its heartbeats, which come every 5 s. */
export const defaultTimes: RendezvousTimes = {
  lastCallMs: 30_000,
  joinTimeoutMs: 600_000,
  heartbeatMs: 250,
  heartbeatLimitMs: 2000,
};
