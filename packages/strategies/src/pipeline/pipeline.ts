import {
  checkOptions,
  ConfigError,
  type Layout,
  LayoutError,
  type ModelSpec,
  option,
  type OptionRules,
  replicated,
  type Strategy,
  Tensor,
} from '@shardwise/core/extend';
import {
  checkComputePrecision,
  type MixedPrecision,
  plannedPrecision,
} from '../mixed-precision/mixed-precision.ts';
import type { Schedule } from '../pipeline-schedule/actions/schedule.ts';
import { checkSchedule } from '../pipeline-schedule/check/check-schedule.ts';
import {
  isScheduleName,
  pipelineSchedule,
  type ScheduleName,
  scheduleNames,
  usualStagesPerRank,
} from '../pipeline-schedule/pipeline-schedule.ts';
import { type LinkCosts, linkRules } from '../pipeline-schedule/simulation/schedule-costs.ts';
import { automaticStages } from './automatic-stages.ts';
import { balancedSplit, type SplitBy, splitsBy } from './balanced-split.ts';
import { checkModelCosts } from './costs/check-model-costs.ts';
import type { ModelCosts } from './costs/model-costs.ts';
import { stageCosts } from './costs/stage-costs.ts';
import { lossOfPass } from './microbatches/loss-of-pass.ts';
import type { LossWeight } from './microbatches/loss-weight.ts';
import { runStages } from './run-stages.ts';
import { stagesOfModules, stagesOfParameters } from './stages/stages-of-parameters.ts';
import { requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import type { StrategyWithLoss } from '../plan/strategy.ts';

/** Options of `pipeline`. */
export interface PipelineOptions {
  /**
   * The schedule, which decides when each rank computes what: a name, or your own schedule. With `automatic`, the
   * schedule, the cut and, if they are not given, the numbers of stages and microbatches are the fastest ones by the
   * measured `costs` for `rows`, among those for which each rank has enough memory. Default: `1f1b`.
   */
  readonly schedule?: ScheduleName | Schedule | 'automatic';
  /**
   * The number of microbatches into which the rows of a batch are cut. A batch with fewer rows has one microbatch for
   * each row. Default: the number in the schedule.
   */
  readonly microbatches?: number;
  /**
   * Paths of the modules with which stages 1 and later begin, in the order in which the model calls them; or
   * the quantity to balance. With `parameters`, the largest stage has as few parameters as possible. With
   * `flops`, `time` and `memory`, the same is true for the quantity that `costs` give; memory is that of states
   * and of the activations that the schedule keeps. Default: `parameters`.
   */
  readonly cut?: readonly string[] | SplitBy;
  /**
   * The costs of modules: from `countModelCosts` or `measureModelCosts`, or written by hand. Default: not
   * known.
   */
  readonly costs?: ModelCosts;
  /** The time of messages, for `explain` and an automatic schedule. Default: they take no time. */
  readonly link?: LinkCosts;
  /** The memory of each rank for states and activations of an automatic schedule. Default: without limit. */
  readonly memoryBytes?: number;
  /** The rows of a batch. Default: for each microbatch, as many rows as `costs` have. */
  readonly rows?: number;
  /**
   * The number of stages. Default: the number that `cut` or the schedule gives. Otherwise it is one for each rank, or
   * two if the schedule has two.
   */
  readonly stages?: number;
  /**
   * The weight of the loss of a microbatch in the loss of the batch: `rows` if it is a mean over rows, `sum` if
   * it is a sum, or a function of the microbatch's inputs, such as the number of its tokens. A microbatch of weight 0
   * adds nothing to the loss and to gradients. Default: what a model that returns its loss says (Module.division), or
   * `rows`.
   */
  readonly weight?: LossWeight;
  /**
   * The dtype of products. Parameters and their gradients are f32. Values between stages that are f32, and
   * their gradients, are sent between ranks in the computeDtype. Default: everything is f32.
   */
  readonly mixedPrecision?: Pick<MixedPrecision, 'computeDtype' | 'outputDtype'>;
  /**
   * Whether the running statistics of batch norms are updated once per pass, with those of the whole batch, as
   * on one rank that has the whole batch. Otherwise each microbatch updates them. Microbatches are normalised
   * by their own statistics in any case. Default: false.
   */
  readonly deferredBatchNorm?: boolean;
  /** The mesh axis whose ranks have the stages. All of them get the same batch. Default: `pp`. */
  readonly axis?: string;
}

/** A pipeline with a loss beside its model. */
export interface PipelineWithLoss<
  Output,
  Targets extends readonly unknown[],
> extends PipelineOptions {
  /**
   * The loss of a microbatch. A pass then takes the model's inputs and, after them, the targets: the parameters
   * of this function after the model's output. Without it, the model returns its loss. Shape: -> [].
   */
  readonly loss: (output: Output, ...targets: Targets) => Tensor;
  /**
   * The number of the inputs of a pass that the model takes. Default: the number of parameters of its
   * forward(). Optional ones that are left out are undefined.
   */
  readonly inputs?: number;
}

interface WithLoss {
  readonly loss?: (...inputs: never[]) => Tensor;
  readonly inputs?: number;
}

const optionRules: OptionRules<PipelineOptions & WithLoss> = {
  schedule: option.checkedLater(),
  microbatches: option.integer(1),
  cut: option.checkedLater(),
  costs: option.object<ModelCosts>('what countModelCosts() returns'),
  rows: option.integer(1),
  link: option.object<LinkCosts>('{ latencyMs, bytesPerSecond }'),
  memoryBytes: option.positive,
  stages: option.integer(1),
  loss: option.callback(),
  inputs: option.integer(0),
  weight: option.checkedLater(),
  mixedPrecision: option.object(),
  deferredBatchNorm: option.flag,
  axis: option.axisName,
};

/**
 * Pipeline parallelism. The model is cut into stages, which the ranks of an axis have, and microbatches pass
 * through them (Huang et al. 2019, "GPipe"; Narayanan et al. 2019, "PipeDream"). The graph shows which values
 * pass between stages: several tensors, skip connections to any later stage, masks, shared parameters. All
 * ranks call the model with the same batch. The loss of a training pass is that of one rank that accumulates
 * the same microbatches.
 *
 *     pipeline({ schedule: '1f1b', microbatches: 8, cut: ['blocks.4'], loss: crossEntropy })
 *
 * When it is applied, the rank of each stage gets rank 0's parameters, and all ranks get rank 0's keys of
 * random numbers. If a loss is not finite, the console names the first stage whose output is not finite.
 * Throws ConfigError for options out of range. Planning throws LayoutError for cuts that are not modules, and
 * ConfigError for a shape that the schedule cannot have.
 */
export function pipeline<Output, Targets extends readonly unknown[]>(
  options: PipelineWithLoss<Output, Targets>,
): StrategyWithLoss<Output, Targets>;
export function pipeline(options: PipelineOptions): Strategy;
export function pipeline(
  options: PipelineOptions & WithLoss = {},
): Strategy & { readonly loss?: (...inputs: never[]) => Tensor } {
  checkOptions('pipeline', options, optionRules);
  const { axis = 'pp', cut = 'parameters', weight, loss, costs, rows, link } = options;
  const { inputs = null, deferredBatchNorm = false } = options;
  requireCut(cut);
  if (link !== undefined) checkOptions('the link of a pipeline', link, linkRules);
  if (costs !== undefined) checkModelCosts(costs);
  else if (rows !== undefined) throw rowsWithoutCosts(rows);
  if (weight !== undefined) requireWeight(weight);
  checkComputePrecision('pipeline', options.mixedPrecision);
  const ofPass = lossOfPass(loss, inputs);
  return {
    specificationVersion: 1,
    name: 'pipeline',
    ...(loss === undefined ? {} : { loss }),
    plan(model, axes): ModelPlan {
      const ranks = requireAxis('a pipeline', axes, axis);
      const { schedule, paths, scale } = stagesFor(model, options, ranks);
      const predicted = costs === undefined ? null : stageCosts(costs, paths, scale, link);
      const stages = stagesOfParameters(model, paths);
      return {
        strategy: 'pipeline',
        axes,
        batch: { dims: [], partial: [] },
        parameters: model.parameters.map((parameter, index) => {
          const rank = schedule.rankOfStage[stages[index] ?? 0] ?? 0;
          const layout: Layout = { ...replicated(parameter.shape), only: { axis, rank } };
          return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
        }),
        steps: [
          new Step(runStages, {
            axis,
            cut: paths,
            schedule,
            rankOfModule: Object.fromEntries(
              stagesOfModules(model, paths)
                .entries()
                .map(([path, stage]) => [path, schedule.rankOfStage[stage] ?? 0]),
            ),
            loss: ofPass,
            weight: weight ?? weightOf(model, loss === undefined) ?? 'rows',
            ...(deferredBatchNorm ? { deferredBatchNorm } : {}),
            costs: predicted?.costs ?? (link === undefined ? {} : { link }),
            ...(predicted === null ? {} : { edges: predicted.edges }),
          }),
        ],
        ...plannedPrecision(options.mixedPrecision),
      };
    },
  };
}

function stagesFor(
  model: ModelSpec,
  options: PipelineOptions,
  ranks: number,
): { readonly schedule: Schedule; readonly paths: readonly string[]; readonly scale: number } {
  const { schedule: asked = '1f1b', cut = 'parameters', costs, rows } = options;
  const { link, memoryBytes, microbatches, stages } = options;
  if (asked === 'automatic') {
    const request = { ranks, costs, rows, link, memoryBytes, microbatches, stages };
    const { schedule, cut: paths } = automaticStages({ ...request, cut: options.cut });
    return { schedule, paths, scale: (rows ?? 1) / schedule.microbatches / (costs?.rows ?? 1) };
  }
  if (memoryBytes !== undefined) {
    throw new ConfigError(
      {
        asked: `a pipeline with room for ${memoryBytes} bytes on each rank`,
        found: 'a schedule that was given, so memoryBytes has no effect',
        todo: "Use schedule: 'automatic', or leave memoryBytes out and read what explain(plan) prints",
      },
      { memoryBytes },
    );
  }
  const schedule = scheduleOf({ ...options, schedule: asked }, ranks);
  const scale =
    rows === undefined || costs === undefined ? 1 : rows / schedule.microbatches / costs.rows;
  const paths =
    typeof cut === 'string' ? balancedSplit(model, schedule, { by: cut, costs, scale }) : cut;
  return { schedule, paths, scale };
}

function scheduleOf(
  {
    schedule,
    microbatches,
    cut = 'parameters',
    stages: asked,
  }: Pick<PipelineOptions, 'microbatches' | 'cut' | 'stages'> & {
    readonly schedule: ScheduleName | Schedule;
  },
  ranks: number,
): Schedule {
  const cutStages = typeof cut === 'string' ? undefined : cut.length + 1;
  if (cutStages !== undefined && asked !== undefined && cutStages !== asked) {
    throw new ConfigError(
      {
        asked: `a pipeline of ${asked} stages`,
        found: `cuts into ${cutStages}`,
        todo: 'Give one stage more than cuts, or leave one of the two out',
      },
      { stages: asked, cuts: cutStages - 1 },
    );
  }
  const stages = cutStages ?? asked ?? usualStages(schedule, ranks);
  const found =
    typeof schedule === 'string' ? named(schedule, ranks, stages, microbatches) : schedule;
  if (typeof schedule !== 'string') checkSchedule(found);
  if (found.forwardOnly) {
    throw new ConfigError(
      {
        asked: `a pipeline by the schedule ${found.name}`,
        found: 'it has only forward passes, so nothing would be trained',
        todo: 'Use a schedule with backward passes: evaluation inside noGrad() leaves them out by itself',
      },
      { schedule: found.name },
    );
  }
  const differs =
    found.ranks !== ranks
      ? `${found.ranks} ranks, and the mesh has ${ranks}`
      : found.stages !== stages
        ? `${found.stages} stages, and the model is cut into ${stages}`
        : microbatches !== undefined && found.microbatches !== microbatches
          ? `${found.microbatches} microbatches, and ${microbatches} were asked for`
          : null;
  if (differs === null) return found;
  throw new ConfigError(
    {
      asked: `a pipeline by the schedule ${found.name}`,
      found: `it is for ${differs}`,
      todo: 'Give a schedule, cuts and microbatches that fit each other and the mesh',
    },
    { ranks, stages, microbatches: found.microbatches },
  );
}

function named(
  name: ScheduleName,
  ranks: number,
  stages: number,
  microbatches: number | undefined,
): Schedule {
  if (!isScheduleName(name)) {
    throw new ConfigError(
      {
        asked: `a pipeline by the schedule '${String(name)}'`,
        found: 'no schedule of this name',
        todo: `Use one of ${scheduleNames.join(', ')}, or automatic`,
      },
      { schedule: name },
    );
  }
  if (microbatches === undefined) {
    throw new ConfigError({
      asked: `a pipeline by the schedule ${name}`,
      found: 'no number of microbatches',
      todo: 'Say into how many microbatches a batch is cut: 4 × ranks, or more',
    });
  }
  if (stages % ranks !== 0) {
    throw new LayoutError(
      {
        asked: `a pipeline of ${stages} stages on ${ranks} ranks`,
        found: `${stages - 1} cuts, so that some ranks would have more stages than others`,
        todo: `Give ${ranks - 1} cuts, or ${2 * ranks - 1} for two stages on each rank`,
      },
      { stages, ranks },
    );
  }
  return pipelineSchedule(name, { ranks, stagesPerRank: stages / ranks, microbatches });
}

function usualStages(schedule: ScheduleName | Schedule, ranks: number): number {
  if (typeof schedule !== 'string') return schedule.stages;
  return ranks * (isScheduleName(schedule) ? usualStagesPerRank(schedule) : 1);
}

/** Returns the weight that a model gives to the losses that it returns. */
function weightOf({ division }: ModelSpec, returnsLoss: boolean): LossWeight | undefined {
  const weight = division?.lossWeight;
  if (weight === undefined || !returnsLoss) return undefined;
  return (...inputs) => {
    const own = weight(...inputs);
    return own instanceof Tensor || typeof own === 'number' ? own : Number.NaN;
  };
}

function requireCut(cut: unknown): void {
  if (splitsBy.some((by) => by === cut)) return;
  if (Array.isArray(cut) && cut.every((path) => typeof path === 'string')) return;
  throw new ConfigError({
    asked: 'the cuts of a pipeline',
    found: typeof cut === 'string' ? `'${cut}'` : `a value that is no list of texts`,
    todo: `Use one of '${splitsBy.join("', '")}' or a list of paths of modules: cut: ['blocks.4']`,
  });
}

function requireWeight(weight: unknown): void {
  if (weight === 'rows' || weight === 'sum' || typeof weight === 'function') return;
  throw new ConfigError({
    asked: 'the weight of the losses of microbatches',
    found: typeof weight === 'string' ? `'${weight}'` : `a value of type ${typeof weight}`,
    todo: "Use 'rows', 'sum' or a function of the inputs of a microbatch",
  });
}

function rowsWithoutCosts(rows: number): ConfigError {
  return new ConfigError(
    {
      asked: `a pipeline for batches of ${rows} rows`,
      found: 'rows, but no costs that depend on them',
      todo: 'Give costs, too, or leave rows out: batches of any size pass through',
    },
    { rows },
  );
}
