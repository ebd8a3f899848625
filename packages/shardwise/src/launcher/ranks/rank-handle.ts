import type { RankMessage } from '../../run-state/run-message.ts';
import type { OutputStream } from '../../terminal/run-output.ts';
import type { MemberMessage } from './member-message.ts';
import type { LauncherOrder, RankData } from './rank-data.ts';

/** How a rank ended. */
export interface RankEnd {
  readonly exitCode: number;
  /** What the rank threw, if it threw. */
  readonly error: unknown;
  /** What happened to the process of the rank, if it did not end by itself. */
  readonly fate?: string | undefined;
  /** Whether the launcher ended the rank, because of another rank or because the user asked for it. */
  readonly terminated: boolean;
}

/** The end of a rank that others ended, or that is gone, for this reason. */
export function lostBy(fate: string): RankEnd {
  return { exitCode: 1, error: undefined, fate, terminated: false };
}

export interface RankOutcome extends RankEnd {
  readonly rank: number;
  readonly logPath: string;
  readonly lastLines: readonly string[];
}

export interface RankStart {
  readonly script: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  readonly logPath: string;
  readonly data: RankData;
  readonly onMessage: (message: RankMessage) => void;
  /** Set if the others can lose this rank and go on. */
  readonly onMember?: ((message: MemberMessage) => void) | undefined;
  readonly onLine: (line: string, stream: OutputStream) => void;
  /** Called when the rank is about to be ended for this reason, because the other ranks must learn of it first. */
  readonly onDoomed: (reason: string) => void;
  /** Called at the moment when the rank is gone. Its last output may still be under way. */
  readonly onEnd: (end: RankEnd) => void;
}

/** A rank that has been started, as a thread or as a process. */
export interface RankHandle {
  /** Settles when the rank is gone and all its output is in its log. */
  readonly outcome: Promise<RankOutcome>;
  /** Does nothing if the rank is gone. */
  order(order: LauncherOrder): void;
  /** Ends the rank at once, whatever it does. */
  terminate(): Promise<void>;
}

/** How the ranks of this host ended. */
export interface LaunchResult {
  /** The outcome of each rank. */
  readonly outcomes: readonly RankOutcome[];
  /** The rank that failed first, before other ranks failed because it was gone. */
  readonly culprit: number | undefined;
}
