import { ConfigError, elementCount, LayoutError, type ModelSpec } from '@shardwise/core/extend';
import { computationsOf, type Schedule } from '../pipeline-schedule/actions/schedule.ts';
import { balancedPartition } from '../pipeline-schedule/automatic/balanced-partition.ts';
import { lightestPartition } from '../pipeline-schedule/automatic/lightest-partition.ts';
import type { ModelCosts, ModuleCosts } from './costs/model-costs.ts';
import { modulesInRow, stagesOfParameters } from './stages/stages-of-parameters.ts';

/** The quantity that a cut balances between stages. */
export type SplitBy = 'parameters' | 'flops' | 'time' | 'memory';

export const splitsBy: readonly SplitBy[] = ['parameters', 'flops', 'time', 'memory'];

export interface BalancedSplitOptions {
  readonly by: SplitBy;
  /** The costs of the modules. Needed unless the cut balances `parameters`. */
  readonly costs?: ModelCosts | undefined;
  /** The rows of a microbatch divided by the rows of the costs. */
  readonly scale: number;
}

/**
 * Returns the paths at which a model is cut into the stages of a schedule, such that the largest stage is as small as
 * possible. A stage begins with a direct child of the model or with a member of a list among its children. Throws
 * LayoutError if there are more stages than such modules, and ConfigError if the costs are not known.
 */
export function balancedSplit(
  model: ModelSpec,
  schedule: Schedule,
  { by, costs, scale }: BalancedSplitOptions,
): readonly string[] {
  const { stages } = schedule;
  if (stages === 1) return [];
  const chain = costs?.modules.map(({ path }) => path) ?? modulesInRow(model);
  requireModules(chain, stages);
  const boundaries =
    by === 'memory'
      ? lightestPartition(chain.length, stages, memoryOf(schedule, modulesOf(costs, by), scale))
      : balancedPartition(
          by === 'parameters' ? parametersOf(model, chain) : costsBy(by, costs),
          stages,
        );
  return boundaries.slice(1, -1).map((place) => chain[place] ?? '');
}

/**
 * Counts the parameters of each module of the chain, and of the modules that follow it in the model up to the next one
 * of the chain.
 */
function parametersOf(model: ModelSpec, chain: readonly string[]): readonly number[] {
  const counts = chain.map(() => 0);
  const places = stagesOfParameters(model, chain.slice(1));
  for (const [index, { shape }] of model.parameters.entries()) {
    const place = places[index] ?? 0;
    counts[place] = (counts[place] ?? 0) + elementCount(shape);
  }
  return counts;
}

function costsBy(by: 'flops' | 'time', costs: ModelCosts | undefined): readonly number[] {
  const found = modulesOf(costs, by).map(({ flops, times }) => {
    if (by === 'flops') return flops;
    if (times === null) throw unknownCosts(by, 'costs that were counted, without times');
    return times.forwardMs + times.inputGradientMs + times.weightGradientMs;
  });
  if (found.some((cost) => cost > 0)) return found;
  throw unknownCosts(by, `a model whose modules all cost 0`);
}

/**
 * Returns the bytes that modules `start` to `end` need as stage `stage`: their states, and activations of as many
 * microbatches as the schedule keeps there.
 */
function memoryOf(
  schedule: Schedule,
  modules: readonly ModuleCosts[],
  scale: number,
): (stage: number, start: number, end: number) => number {
  const kept = keptMicrobatches(schedule);
  const sumsOf = (
    of: (module: ModuleCosts) => number,
  ): ((start: number, end: number) => number) => {
    const sums = [0];
    for (const module of modules) sums.push((sums.at(-1) ?? 0) + of(module));
    return (start, end) => (sums[end] ?? 0) - (sums[start] ?? 0);
  };
  const states = sumsOf(({ stateBytes }) => stateBytes);
  const activations = sumsOf(({ activationBytes }) => scale * activationBytes);
  const rests = sumsOf(({ weightGradientBytes }) => scale * weightGradientBytes);
  return (stage, start, end) => {
    const all = activations(start, end);
    // The first stage computes no gradients of its inputs, so its weight-gradient action keeps everything until it
    // runs.
    const left =
      start === 0 ? all + scale * (modules[end - 1]?.outputBytes ?? 0) : rests(start, end);
    const most = (kept[stage] ?? []).map(({ whole, rest }) => whole * all + rest * left);
    return states(start, end) + Math.max(0, ...most);
  };
}

function modulesOf(costs: ModelCosts | undefined, by: SplitBy): readonly ModuleCosts[] {
  if (costs !== undefined) return costs.modules;
  throw unknownCosts(by, 'no costs of its modules');
}

function requireModules(chain: readonly string[], stages: number): void {
  if (stages <= chain.length) return;
  throw new LayoutError(
    {
      asked: `a pipeline of ${stages} stages`,
      found: `a model of ${chain.length} modules in a row: ${chain.slice(0, 8).join(', ')}`,
      todo: `Take ${chain.length} stages at most, or name modules inside of these: cut: ['${chain[0] ?? 'blocks.0'}.…']`,
    },
    { stages, modules: chain.length },
  );
}

function unknownCosts(by: SplitBy, found: string): ConfigError {
  const call = by === 'time' ? 'await measureModelCosts' : 'countModelCosts';
  return new ConfigError(
    {
      asked: `a pipeline whose cuts balance ${by}`,
      found,
      todo: `Give costs: ${call}(model, inputs, { loss }), of a microbatch${by === 'memory' ? '' : ", or take cut: 'parameters'"}`,
    },
    { cut: by },
  );
}

/** The number of microbatches whose activations a stage keeps at the same time. */
interface KeptMicrobatches {
  /** The microbatches between their forward and their backward or input gradient. All of their activations are kept. */
  readonly whole: number;
  /** The microbatches between their input gradient and their weight gradient. Only what the latter needs is kept. */
  readonly rest: number;
}

/** Returns, for each stage of a schedule, all different pairs of numbers that occur while the schedule runs. */
function keptMicrobatches(schedule: Schedule): readonly (readonly KeptMicrobatches[])[] {
  const kept = schedule.rankOfStage.map(() => ({ whole: 0, rest: 0 }));
  const seen = schedule.rankOfStage.map(() => new Map<string, KeptMicrobatches>());
  const computations = schedule.actions.flatMap((own) => own.flatMap(computationsOf));
  for (const { kind, stage } of computations) {
    const own = kept[stage];
    if (own === undefined) continue;
    if (kind === 'forward') own.whole++;
    else if (kind === 'weightGradient') own.rest--;
    else own.whole--;
    if (kind === 'inputGradient') own.rest++;
    seen[stage]?.set(`${own.whole} ${own.rest}`, { ...own });
  }
  return seen.map((counts) => [...counts.values()]);
}
