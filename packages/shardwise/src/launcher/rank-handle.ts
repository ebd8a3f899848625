import type { RankMessage } from '../run-state/message.ts';
import type { OutputStream } from '../terminal/run-output.ts';
import type { LauncherOrder, RankData } from './rank-data.ts';

/** How a rank ended. */
export interface RankEnd {
  readonly exitCode: number;
  /** What it threw, where it threw. */
  readonly error: unknown;
  /** What became of its process, where it did not end by itself. */
  readonly fate?: string | undefined;
  /** Ended by the launcher, because of another rank or at the user's wish. */
  readonly terminated: boolean;
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
  readonly onLine: (line: string, stream: OutputStream) => void;
  /** The rank is about to be ended for this reason: the others are to hear it first. */
  readonly onDoomed: (reason: string) => void;
  /** The moment the rank is gone; its last output may still be under way. */
  readonly onEnd: (end: RankEnd) => void;
}

/** A rank that has been started, whatever it is. */
export interface RankHandle {
  /** Settles when the rank is gone and all it wrote is in its log. */
  readonly outcome: Promise<RankOutcome>;
  /** Does nothing where the rank is gone. */
  order(order: LauncherOrder): void;
  /** Ends the rank wherever it is. */
  terminate(): Promise<void>;
}

/** How the ranks of this host ended. */
export interface LaunchResult {
  /** The outcome of each rank. */
  readonly outcomes: readonly RankOutcome[];
  /** The rank that failed by itself, before the others failed for want of it. */
  readonly culprit: number | undefined;
}
