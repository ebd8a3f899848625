import type { Backend, Mesh, ProcessGroup } from '@shardwise/core/extend';
import type { ParameterServers } from '@shardwise/parameter-server';
import type { CheckpointContents } from '../checkpoint/save/checkpoint-contents.ts';
import type { SaveOptions } from '../checkpoint/save/checkpoint-saver.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { Fact } from '../run-state/run-message.ts';
import type { StepMetrics } from './step-metrics.ts';

/** A rank of a run, as `init` returns it. */
export interface RankContext {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank's number on its host. */
  readonly localRank: number;
  /** How the ranks reach each other, and why. `explain(plan, { transport })` prints it with a plan. */
  readonly transport: TransportChoice;
  readonly device: Backend;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  /** The mesh that `init` was asked for. Default: one axis over all ranks, `dp`. */
  readonly mesh: Mesh;
  /** The parameter servers of a run with `--servers`, for parameterServer(). Its size is 0 if there are none. */
  readonly servers: ParameterServers;
  /** The directory for files of this run. It is the same on every rank. */
  readonly runDirectory: string;
  /** The checkpoint that `--resume` named, for checkpoints.load. */
  readonly resumeDirectory: string | undefined;

  /**
   * Reports an update. Call it once for each update, on every rank. It costs little. Throws ConfigError for
   * metrics that are not numbers, and for a step that was reported before.
   */
  report(metrics: StepMetrics): void;
  /** Adds facts of the model or the run, such as the number of parameters, to the head of the report. */
  describe(facts: Readonly<Record<string, Fact>>): void;
  /**
   * Whether the run should end after update `step`, because the user has asked for it. Every rank must ask
   * after the same updates, in ascending order. All ranks get the same answer. It takes a microsecond among
   * threads of one host, and otherwise a small all-reduce.
   */
  shouldStop(step: number): Promise<boolean>;
  /** Whether the user has asked for an end. Ranks may see this at different steps; use shouldStop to decide. */
  readonly stopRequested: boolean;
  /**
   * Saves a checkpoint under `runDirectory/checkpoints`. It is a collective: all ranks write their parts, and
   * return the folder when all parts are on the disk (or, with `async`, copied to host memory). If it fails on
   * one rank, it throws CheckpointError on all of them, and the previous checkpoint stays the latest.
   */
  saveCheckpoint(contents: CheckpointContents, options?: SaveOptions): Promise<string>;
  /**
   * Waits for a save in the background, throws the error of this save if it failed, and leaves the world. It is
   * the last call.
   */
  close(): Promise<void>;
}
