import type { Backend, Mesh, ProcessGroup } from '@shardwise/core/extend';
import type { CheckpointContents } from '../checkpoint/checkpoint-contents.ts';
import type { SaveOptions } from '../checkpoint/checkpoint-saver.ts';
import type { StepMetrics } from '../rank/step-metrics.ts';
import type { Fact } from '../run-state/message.ts';
import type { CheckpointSource } from './checkpoint/checkpoint-source.ts';
import type { PageDevice } from './choose-device.ts';

/** A rank of a page, as its worker's `init` finds it. */
export interface PageRankContext {
  readonly rank: number;
  readonly worldSize: number;
  /** As `rank`: all ranks are in one page. */
  readonly localRank: number;
  /** How the ranks reach each other, and why so. */
  readonly transport: { readonly kind: 'threads' | 'ports'; readonly reason: string };
  readonly device: Backend;
  /** Which device it is, and why. */
  readonly deviceChoice: PageDevice;
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  /** One axis over all ranks, `dp`. */
  readonly mesh: Mesh;
  /** What the page gave to startRanks. It is to be checked, as all that comes from elsewhere. */
  readonly data: unknown;
  /** The folder of this run in the browser's storage for the page. */
  readonly runDirectory: string;
  /** What `resume` of startRanks named, for loadCheckpoint: a folder, or what the visitor has picked. */
  readonly resumeDirectory: CheckpointSource | undefined;

  /** To be called once an update, on every rank: the page's onStep hears of it. Throws ConfigError as under `shardwise run`. */
  report(metrics: StepMetrics): void;
  /** Facts of the model or the run, such as the number of parameters, for the page's onFacts. */
  describe(facts: Readonly<Record<string, Fact>>): void;
  /** Posts a copy of a value to the page's onValue. */
  send(value: unknown): void;
  /**
   * Whether the run shall end after update `step`, because the page asked for it. Every rank asks after the same updates, in
   * ascending order, and gets the same answer.
   */
  shouldStop(step: number): Promise<boolean>;
  /** The page has asked for an end; ranks may see it at different steps, so shouldStop decides. */
  readonly stopRequested: boolean;
  /**
   * A collective: all ranks write their parts under `runDirectory/checkpoints` in the browser's storage, and return its folder when
   * all of it is there (or, with `async`, in memory). Throws CheckpointError on all ranks alike where it fails on one; the checkpoint
   * before is still in force then.
   */
  saveCheckpoint(contents: CheckpointContents, options?: SaveOptions): Promise<string>;
  /** Waits for a save in the background, and throws what it failed with; leaves the world. The last call: the page ends the worker then. */
  close(): Promise<void>;
}
