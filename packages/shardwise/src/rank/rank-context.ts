import type { Backend, Mesh, ParameterServers, ProcessGroup } from '@shardwise/core/extend';
import type { CheckpointContents } from '../checkpoint/checkpoint-contents.ts';
import type { SaveOptions } from '../checkpoint/checkpoint-saver.ts';
import type { TransportChoice } from '../launcher/transports/transport-choice.ts';
import type { Fact } from '../run-state/message.ts';
import type { StepMetrics } from './step-metrics.ts';

/** A rank of a run, as `init` finds it. */
export interface RankContext {
  readonly rank: number;
  readonly worldSize: number;
  /** The rank's number on its host. */
  readonly localRank: number;
  /** How the ranks reach each other, and why so; `explain(plan, { transport })` prints it with a plan. */
  readonly transport: TransportChoice;
  readonly device: Backend;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  /** One axis over all ranks, `dp`. */
  readonly mesh: Mesh;
  /** The parameter servers of a run with `--servers`, for parameterServer(); its size is 0 where there are none. */
  readonly servers: ParameterServers;
  /** The directory for files of this run; the same on every rank. */
  readonly runDirectory: string;
  /** The checkpoint that `--resume` named, for loadCheckpoint. */
  readonly resumeDirectory: string | undefined;

  /**
   * To be called once an update, on every rank. It costs little. Throws ConfigError for figures that are no
   * numbers, and for a step twice.
   */
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
   * A collective: all ranks write their parts under `runDirectory/checkpoints`, and return its
   * folder when all of it is on the disk (or, with `async`, in host memory). Throws CheckpointError
   * on all ranks alike where it fails on one; the checkpoint before is still in force then.
   */
  saveCheckpoint(contents: CheckpointContents, options?: SaveOptions): Promise<string>;
  /** Waits for a save in the background, and throws what it failed with; leaves the world. The last call. */
  close(): Promise<void>;
}
