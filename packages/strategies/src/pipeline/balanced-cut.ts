import { ConfigError, elementCount, LayoutError, type ModelSpec } from '@shardwise/core/extend';
import { balancedPartition } from '../pipeline-schedule/balanced-partition.ts';
import { keptMicrobatches } from '../pipeline-schedule/kept-microbatches.ts';
import { lightestPartition } from '../pipeline-schedule/lightest-partition.ts';
import type { Schedule } from '../pipeline-schedule/schedule.ts';
import type { ModelCosts, ModuleCosts } from './costs/model-costs.ts';
import { modulesInRow } from './modules-in-row.ts';
import { stagesOfParameters } from './stages-of-parameters.ts';

/** What stages are to have alike. */
export type CutBy = 'parameters' | 'flops' | 'time' | 'memory';

export const cutsBy: readonly CutBy[] = ['parameters', 'flops', 'time', 'memory'];

export interface BalancedCutOptions {
  readonly by: CutBy;
  /** Only parameters are known without it. */
  readonly costs?: ModelCosts | undefined;
  /** Rows of a microbatch over rows of the costs. */
  readonly scale: number;
}

/**
 * Where to cut a model into the stages of a schedule such that the one with the most of something has as little as can be.
 * A stage begins with a module that the model itself holds, or with a member of a list of it. Throws LayoutError for more
 * stages than such modules, and ConfigError where it is not known what they cost.
 */
export function balancedCut(
  model: ModelSpec,
  schedule: Schedule,
  { by, costs, scale }: BalancedCutOptions,
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

/** Those of each module, and of what stands behind it in the model up to the next one. */
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

/** States, and activations of as many microbatches as the schedule keeps at a place. */
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
    // Nothing asks the first stage for gradients of its inputs, and its weight gradients take all.
    const left =
      start === 0 ? all + scale * (modules[end - 1]?.outputBytes ?? 0) : rests(start, end);
    const most = (kept[stage] ?? []).map(({ whole, rest }) => whole * all + rest * left);
    return states(start, end) + Math.max(0, ...most);
  };
}

function modulesOf(costs: ModelCosts | undefined, by: CutBy): readonly ModuleCosts[] {
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

function unknownCosts(by: CutBy, found: string): ConfigError {
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
