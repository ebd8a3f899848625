import type { ScheduleCosts } from '../pipeline-schedule/schedule-costs.ts';
import type { Schedule, StageEdge } from '../pipeline-schedule/schedule.ts';
import type { LossOfPass } from '../pipeline/loss-of-pass.ts';
import type { LossWeight } from '../pipeline/loss-weight.ts';
import type { PassMessage } from '../pipeline/pass-messages.ts';
import type { LatestPass } from '../pipeline/pipeline-passes.ts';
import type { ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import type { StepKey } from './step.ts';

// Steps that others look for in a plan. A page that has no such steps loads nothing of what they do.

/** A unit: parameters that are whole at the same time, while the forward or the backward pass of a module runs. */
export interface Gather {
  readonly axis: string;
  /** The path of the module; '' for the model. */
  readonly unit: string;
  readonly parameters: readonly string[];
  /**
   * Whether whole parameters are freed after the forward pass and gathered again in the backward pass. With a
   * number, each rank keeps a part of them, and so many neighbouring ranks have all parts.
   */
  readonly reshardAfterForward: boolean | number;
  /** The number of units that are gathered before they are used. It is the same in all units. */
  readonly prefetch: number;
  /**
   * How often the latest passes have gathered each: never what they do not read, more than once what a module
   * reads that runs again. Default: not known, and all are listed once.
   */
  readonly latest?: Readonly<Record<'forward' | 'backward', Readonly<Record<string, number>>>>;
}

export const gatherKey: StepKey<Gather> = { name: 'gather' };

/** The ranks of an axis share the passes of a module by its style, and redistribute activations at its boundary. */
export interface RunLayer {
  readonly axis: string;
  /** The path of the module. */
  readonly module: string;
  readonly style: ParallelStyle;
  /** By the names of the parameters within the module: their names in the model. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The number of tokens of a rank's batch, for the bytes. */
  readonly tokens: number;
}

export const runLayerKey: StepKey<RunLayer> = { name: 'runLayer' };

/** The ranks of an axis each have stages of the model, and pass microbatches on by a schedule. */
export interface RunStages {
  readonly axis: string;
  /** Paths of the modules with which stages 1 and later begin. */
  readonly cut: readonly string[];
  readonly schedule: Schedule;
  /** By the path of a module: the rank in whose stages it runs. */
  readonly rankOfModule: Readonly<Record<string, number>>;
  readonly loss: LossOfPass | null;
  readonly weight: LossWeight;
  /** Whether running statistics of batch norms move once a pass. Default: by each microbatch. */
  readonly deferredBatchNorm?: boolean;
  /** The costs of stages and messages, as far as they are known. */
  readonly costs: ScheduleCosts;
  /**
   * What crossed between stages in the latest pass, of one microbatch; before the first one, what costs say. Default: not
   * known.
   */
  readonly edges?: readonly StageEdge[];
  /** What each rank kept of activations at most in the first pass. Default: not known. */
  readonly liveBytes?: readonly number[];
  /** All messages of the latest training pass, of all ranks. Default: not known, as before the first one. */
  readonly messages?: readonly PassMessage[];
  /** What else the latest training pass has shown. Default: not known, as before the first one. */
  readonly latest?: LatestPass;
}

export const runStagesKey: StepKey<RunStages> = { name: 'runStages' };

/**
 * The ranks of an axis get rank 0's model: each rank gets the part of every parameter that it computes with, by
 * the layouts of the plan. If they have the same batch, they also get rank 0's keys of random numbers.
 */
export interface ShardLayers {
  readonly axis: string;
  /** `own`: the ranks have other batches, and average what they owe to parameters that are not cut. Default: `shared`. */
  readonly batch?: 'shared' | 'own';
  /** Whether another strategy may share layers over the axis too, each those that it knows; one step is for both. Default: false. */
  readonly joins?: boolean;
}

export const shardLayersKey: StepKey<ShardLayers> = { name: 'shardLayers' };
