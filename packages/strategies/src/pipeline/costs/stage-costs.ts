import type { StageEdge } from '../../pipeline-schedule/actions/schedule.ts';
import type { LayerCosts } from '../../pipeline-schedule/automatic/automatic-schedule.ts';
import {
  type LinkCosts,
  ofFirstStage,
  type ScheduleCosts,
  type StageCosts,
  unitCosts,
} from '../../pipeline-schedule/simulation/schedule-costs.ts';
import type { ModelCosts, ModuleCosts } from './model-costs.ts';

/** The costs of a pipeline as predicted before its first pass. */
export interface PredictedCosts {
  readonly costs: ScheduleCosts;
  readonly edges: readonly StageEdge[];
}

/**
 * Returns the costs of a microbatch in each stage, or null if a stage begins at a module whose costs are not known.
 * Without measured times, each forward, input gradient and weight gradient counts as 1 ms. `scale` is the rows of a
 * microbatch divided by the rows of the costs.
 */
export function stageCosts(
  { modules }: ModelCosts,
  cut: readonly string[],
  scale: number,
  link: LinkCosts | undefined,
): PredictedCosts | null {
  const places = cut.map((path) => modules.findIndex((module) => module.path === path));
  if (places.includes(-1)) return null;
  const bounds = [0, ...places, modules.length];
  const stages = bounds.slice(1).map((end, stage) => modules.slice(bounds[stage], end));
  const edges = stages.slice(1).map((_, from): StageEdge => {
    const bytes = scale * (stages[from]?.at(-1)?.outputBytes ?? 0);
    return { from, to: from + 1, gradient: true, bytes };
  });
  return {
    costs: {
      stages: stages.map((own, stage) => (stage === 0 ? ofFirst(own, scale) : costsOf(own, scale))),
      ...(link === undefined ? {} : { link }),
    },
    edges,
  };
}

/** Converts the costs of modules to those of layers, for all rows of a step. Returns null if no times were measured. */
export function layerCosts({ modules, rows }: ModelCosts, rowsOfStep: number): LayerCosts[] | null {
  const scale = rowsOfStep / rows;
  const layers = modules.flatMap((module): LayerCosts[] => {
    if (module.times === null) return [];
    const { outputBytes, stateBytes } = module;
    return [{ ...costsOf([module], scale), outputBytes: scale * outputBytes, stateBytes }];
  });
  return layers.length < modules.length ? null : layers;
}

function ofFirst(modules: readonly ModuleCosts[], scale: number): StageCosts {
  const first = ofFirstStage(costsOf(modules, scale), scale * (modules.at(-1)?.outputBytes ?? 0));
  return isMeasured(modules) ? first : { ...first, ...unitCosts };
}

function costsOf(modules: readonly ModuleCosts[], scale: number): StageCosts {
  const sum = (of: (module: ModuleCosts) => number): number =>
    scale * modules.reduce((all, module) => all + of(module), 0);
  return {
    ...unitCosts,
    ...(isMeasured(modules)
      ? {
          forwardMs: sum(({ times }) => times?.forwardMs ?? 0),
          inputGradientMs: sum(({ times }) => times?.inputGradientMs ?? 0),
          weightGradientMs: sum(({ times }) => times?.weightGradientMs ?? 0),
        }
      : {}),
    activationBytes: sum(({ activationBytes }) => activationBytes),
    weightGradientBytes: sum(({ weightGradientBytes }) => weightGradientBytes),
  };
}

function isMeasured(modules: readonly ModuleCosts[]): boolean {
  return modules.every(({ times }) => times !== null);
}
