import type { Schedule, StageEdge } from '../pipeline-schedule/actions/schedule.ts';
import type { ScheduleCosts } from '../pipeline-schedule/simulation/schedule-costs.ts';
import type { LossOfPass } from './microbatches/loss-of-pass.ts';
import type { LossWeight } from './microbatches/loss-weight.ts';
import type { LatestPass } from './passes/pipeline-passes.ts';
import type { PassMessage } from './work/pass-messages.ts';
import type { StepKey } from '../plan/step.ts';

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

/** The key of the step `RunStages`, for code that looks for a pipeline in a plan and does not load the code of one. */
export const runStagesKey: StepKey<RunStages> = { name: 'runStages' };
