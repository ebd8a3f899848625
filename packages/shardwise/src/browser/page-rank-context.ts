import type { Backend, Mesh, ProcessGroup } from '@shardwise/core/extend';
import type { CheckpointContents } from '../checkpoint/save/checkpoint-contents.ts';
import type { SaveOptions } from '../checkpoint/save/checkpoint-saver.ts';
import type { StepMetrics } from '../rank/step-metrics.ts';
import type { Fact } from '../run-state/run-message.ts';
import type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
import type { PageDevice } from './choose-device.ts';

/** A rank of a page, as `init` returns it in the worker. */
export interface PageRankContext {
  readonly rank: number;
  readonly worldSize: number;
  /** The same as `rank`, because all ranks are in one page. */
  readonly localRank: number;
  /** How the ranks reach each other, and why. */
  readonly transport: { readonly kind: 'threads' | 'ports'; readonly reason: string };
  readonly device: Backend;
  /** Which device it is, and why. */
  readonly deviceChoice: PageDevice;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  /** A mesh with one axis over all ranks, `dp`. */
  readonly mesh: Mesh;
  /** The data that the page gave to startRanks. Check it, as all data that comes from elsewhere. */
  readonly data: unknown;
  /** The folder of this run in the browser's storage for the page. */
  readonly runDirectory: string;
  /**
   * The source that `resume` of startRanks named, for checkpoints.load: a folder, or files that the visitor has
   * picked.
   */
  readonly resumeDirectory: CheckpointSource | undefined;

  /**
   * Reports an update to the page's onStep. Call it once for each update, on every rank. Throws ConfigError for
   * the same mistakes as under `shardwise run`.
   */
  report(metrics: StepMetrics): void;
  /** Reports facts of the model or the run, such as the number of parameters, to the page's onFacts. */
  describe(facts: Readonly<Record<string, Fact>>): void;
  /** Posts a copy of a value to the page's onValue. */
  send(value: unknown): void;
  /**
   * Whether the run should end after update `step`, because the page has asked for it. Every rank must ask
   * after the same updates, in ascending order. All ranks get the same answer.
   */
  shouldStop(step: number): Promise<boolean>;
  /** Whether the page has asked for an end. Ranks may see this at different steps; use shouldStop to decide. */
  readonly stopRequested: boolean;
  /**
   * Saves a checkpoint under `runDirectory/checkpoints` in the browser's storage. It is a collective: all ranks
   * write their parts, and return the folder when all parts are stored (or, with `async`, copied to memory). If
   * it fails on one rank, it throws CheckpointError on all of them, and the previous checkpoint stays the
   * latest.
   */
  saveCheckpoint(contents: CheckpointContents, options?: SaveOptions): Promise<string>;
  /**
   * Waits for a save in the background, throws the error of this save if it failed, and leaves the world. It is
   * the last call: the page then ends the worker.
   */
  close(): Promise<void>;
}
