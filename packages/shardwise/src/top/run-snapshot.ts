import type { RunHost } from '../run-state/run-message.ts';

/** The file of a run's directory that has the latest snapshot. */
export const SNAPSHOT_FILE = 'live.json';
/** The key of the latest snapshot in the store of a run's hosts. */
export const SNAPSHOT_KEY = 'live/latest';
/** The key of the last snapshot in the store. It is set when the run is over. */
export const LAST_SNAPSHOT_KEY = 'live/last';

/** The least time between two snapshots of a run. */
export const SNAPSHOT_MS = 1000;

/** The version of the form of snapshots. */
export const SNAPSHOT_FORMAT = 1;

/** The greatest number of ranks in a snapshot, which the store must take. The totals cover all ranks. */
export const MAX_SNAPSHOT_RANKS = 1024;

/**
 * `failed` and `ended`: it is gone. `quiet`: it has not reported for long. `behind`: others are steps ahead. `slow`: the
 * others wait for it. `waiting`: it has not reported a step.
 */
export type RankStatus = 'failed' | 'quiet' | 'behind' | 'slow' | 'waiting' | 'running' | 'ended';

/** The states of a rank, the worst first. */
export const rankStates: readonly RankStatus[] = [
  'failed',
  'quiet',
  'behind',
  'slow',
  'waiting',
  'running',
  'ended',
];

/** Amounts of a rank, or of all ranks together. What is not reported is absent. */
export interface Rates {
  readonly tokensPerSecond?: number | undefined;
  readonly samplesPerSecond?: number | undefined;
  readonly memoryBytes?: number | undefined;
  /** Messages to other processes, without the frames around them. */
  readonly sentBytesPerSecond?: number | undefined;
  readonly receivedBytesPerSecond?: number | undefined;
}

/** A rank of a run at one moment. The times are averages of a step, of which later steps weigh more. */
export interface RankSnapshot extends Rates {
  readonly rank: number;
  /** The name of its host. */
  readonly host?: string | undefined;
  readonly state: RankStatus;
  readonly exitCode?: number | undefined;
  readonly step?: number | undefined;
  readonly loss?: number | undefined;
  readonly stepMs?: number | undefined;
  readonly computeMs?: number | undefined;
  /** The time in which it waits for messages. */
  readonly communicationMs?: number | undefined;
  /** What it waits longer than the rank that waits least: the part of communication that slower ranks cause. */
  readonly waitingMs?: number | undefined;
  readonly dataMs?: number | undefined;
  readonly graphMs?: number | undefined;
  /** By how much its own work, without communication, takes longer than that of the median rank: 0.2 is 20 %. */
  readonly slowness?: number | undefined;
  /** The time since its last report, by the clock of the launcher. */
  readonly quietMs: number;
}

/** A run at one moment. */
export interface RunSnapshot extends Rates {
  readonly format: typeof SNAPSHOT_FORMAT;
  /** The version of shardwise that the run uses. */
  readonly version: string;
  /** Counts the snapshots of the run. */
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly writtenMs: number;
  readonly phase:
    | 'gathering'
    | 'starting'
    | 'running'
    | 'stopping'
    | 'finished'
    | 'stopped'
    | 'failed';
  /** Why the run failed. */
  readonly reason?: string | undefined;
  readonly script: string;
  readonly runDirectory: string;
  readonly startMs: number;
  readonly transport?: string | undefined;
  readonly hosts: readonly RunHost[];
  readonly worldSize: number;
  readonly restarts: number;
  /** Why the ranks started again last. */
  readonly restartReason?: string | undefined;
  /** The last step that every rank has reported. */
  readonly step?: number | undefined;
  readonly totalSteps?: number | undefined;
  readonly loss?: number | undefined;
  readonly validationLoss?: number | undefined;
  /** Of the slowest rank. */
  readonly stepMs?: number | undefined;
  /** How long the remaining steps will take. */
  readonly leftMs?: number | undefined;
  readonly checkpointStep?: number | undefined;
  readonly ranks: readonly RankSnapshot[];
}

/** Whether no snapshot follows. */
export function isOver({ phase }: RunSnapshot): boolean {
  return phase === 'finished' || phase === 'stopped' || phase === 'failed';
}
