import type { Backend, Mesh, ProcessGroup } from '@shardwise/core';
import type { CheckpointContents } from '../checkpoint/save-checkpoint.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { Fact } from '../run-state/message.ts';
import type { StepMetrics } from './step-metrics.ts';

/** A rank of a run, as `init` finds it. */
export interface RankContext {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank's number on its host. */
  readonly localRank: number;
  /** How the ranks reach each other, and why so. */
  readonly transport: TransportChoice;
  readonly device: Backend;
  /** All ranks. */
  readonly group: ProcessGroup;
  /** One axis over all ranks, `dp`. */
  readonly mesh: Mesh;
  /** For files of this run; the same on every rank. */
  readonly runDirectory: string;
  /** What `--resume` named, for loadCheckpoint. */
  readonly resumeDirectory: string | undefined;

  /** Once an update, on every rank. Cheap. */
  report(metrics: StepMetrics): void;
  /** Facts of the model or the run for the report's head, such as the number of parameters. */
  describe(facts: Readonly<Record<string, Fact>>): void;
  /**
   * Whether the run shall end after update `step`, because the user asked for it. Every rank asks
   * after the same updates, in ascending order, and gets the same answer. Costs a microsecond among threads of one host, else
   * a small all-reduce.
   */
  shouldStop(step: number): Promise<boolean>;
  /** The user has asked for an end; ranks may see it at different steps, so shouldStop decides. */
  readonly stopRequested: boolean;
  /**
   * A collective: rank 0 writes under `runDirectory/checkpoints`, the others wait until all of it
   * is on the disk; what they pass is not used. Returns the folder written.
   */
  saveCheckpoint(contents: CheckpointContents): Promise<string>;
  /** Leaves the world; the last call. */
  close(): void;
}
