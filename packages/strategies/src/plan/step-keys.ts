import type { ScheduleCosts } from '../pipeline-schedule/schedule-costs.ts';
import type { Schedule, StageEdge } from '../pipeline-schedule/schedule.ts';
import type { LossOfPass } from '../pipeline/loss-of-pass.ts';
import type { LossWeight } from '../pipeline/loss-weight.ts';
import type { PassMessage } from '../pipeline/pass-messages.ts';
import type { LatestPass } from '../pipeline/pipeline-passes.ts';
import type { ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import type { StepKey } from './step.ts';

// The keys and data of steps that other code looks for in a plan. A page without such steps does not load the code of
// their kinds.

/**
 * Gathers a unit: parameters that are whole at the same time, while the forward or the backward pass of a module runs.
 */
export interface Gather {
  readonly axis: string;
  /** The path of the module; '' for the model. */
  readonly unit: string;
  readonly parameters: readonly string[];
  /**
   * Whether whole parameters are freed after the forward pass and gathered again in the backward pass. With a number,
   * each rank keeps a part of them, and this many neighbouring ranks together have all parts.
   */
  readonly reshardAfterForward: boolean | number;
  /** The number of units that are gathered before they are used. It is the same in all units. */
  readonly prefetch: number;
  /**
   * The number of times that the latest passes have gathered each parameter: 0 if nothing reads it, and more than 1 if
   * its module runs several times. Default: not known, and each is listed once.
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
  /** The names of parameters in the model, by their names within the module. */
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
  /** The rank whose stages run each module, by the module's path. */
  readonly rankOfModule: Readonly<Record<string, number>>;
  readonly loss: LossOfPass | null;
  readonly weight: LossWeight;
  /** Whether running statistics of batch norms are updated once per pass. Default: each microbatch updates them. */
  readonly deferredBatchNorm?: boolean;
  /** The costs of stages and messages, as far as they are known. */
  readonly costs: ScheduleCosts;
  /**
   * The values that crossed between stages for one microbatch of the latest pass. Before the first pass, they are
   * derived from costs. Default: not known.
   */
  readonly edges?: readonly StageEdge[];
  /** The most bytes of activations that each rank kept in the first training pass. Default: not known. */
  readonly liveBytes?: readonly number[];
  /** All messages of the latest training pass, of all ranks. Default: not known, as before the first pass. */
  readonly messages?: readonly PassMessage[];
  /** Other facts about the latest training pass. Default: not known, as before the first pass. */
  readonly latest?: LatestPass;
}

export const runStagesKey: StepKey<RunStages> = { name: 'runStages' };

/**
 * The ranks of an axis get rank 0's model: each rank gets the part of every parameter that it computes with, by
 * the layouts of the plan. If they have the same batch, they also get rank 0's keys of random numbers.
 */
export interface ShardLayers {
  readonly axis: string;
  /**
   * `own`: the ranks have different batches, and average the gradients of parameters that are not cut. Default:
   * `shared`.
   */
  readonly batch?: 'shared' | 'own';
  /**
   * Whether another strategy may also share layers over the axis, each the layers that it knows. One step then serves
   * both. Default: false.
   */
  readonly joins?: boolean;
}

export const shardLayersKey: StepKey<ShardLayers> = { name: 'shardLayers' };
