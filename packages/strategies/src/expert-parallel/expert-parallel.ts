import {
  checkOptions,
  LayoutError,
  option,
  type OptionRules,
  type Strategy,
} from '@shardwise/core/extend';
import { layoutOver } from '../layout/axis-layout.ts';
import { requireAxis } from '../plan/axis-of-plan.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import { runLayer } from '../plan/steps/run-layer.ts';
import { shardLayers } from '../plan/steps/shard-layers.ts';
import { shareBuffers } from '../plan/steps/share-buffers.ts';
import { shardingsOf, styledModules, type StylePlan } from '../tensor-parallel/styled-modules.ts';
import { expertsStyle, looksLikeExperts } from './experts-style.ts';

export interface ExpertParallelOptions {
  /** The mesh axis whose ranks share out the experts of each layer, and the batch. Default: `ep`. */
  readonly axis?: string;
  /** Routes of a token, for the bytes in the plan. Default: 2, as of topKGate(). */
  readonly k?: number;
  /**
   * The most tokens of a rank's batch: ranks keep room for as many of each of the others, and bytes in the plan are those of so many.
   * Default: no more than this rank's own, and 1 for the bytes.
   */
  readonly tokens?: number;
}

const optionRules: OptionRules<ExpertParallelOptions> = {
  axis: option.axisName,
  k: option.integer(1),
  tokens: option.integer(1),
};

/**
 * Experts of `nn.MixtureOfExperts` shared out among ranks that have other tokens (Lepikhin et al. 2020): rows travel to their
 * experts and back. All else is on every rank, and its gradients are averaged over the axis while backward goes on; those of experts
 * are divided by as many ranks, whose tokens they have seen. So it shares out the batch, as ddp does, and goes before what does
 * so on other axes: `compose(expertParallel(), fsdp())`.
 *
 * Carried out, it makes rank 0's parameters and buffers those of all ranks of the axis.
 */
export function expertParallel(options: ExpertParallelOptions = {}): Strategy {
  checkOptions('expertParallel', options, optionRules);
  const { axis = 'ep', k = 2, tokens = 1 } = options;
  const styles: StylePlan = { '**': expertsStyle(k, tokens) };
  return {
    name: 'expert-parallel',
    plan(model, axes): ModelPlan {
      const size = requireAxis('expertParallel', axes, axis);
      const layers = styledModules(styles, model).filter(({ module }) => looksLikeExperts(module));
      if (layers.length === 0) throw noExperts(axis);
      const own = Object.fromEntries(layers.map(({ module, style }) => [module.path, style]));
      const shardings = shardingsOf(own, model, size);
      return {
        strategy: 'expert-parallel',
        axes,
        batch: { dims: [[axis]], partial: [] },
        parameters: model.parameters.map((parameter) => {
          const sharding = shardings.get(parameter.name) ?? 'invariant';
          const layout = layoutOver(axis, sharding, parameter.shape.length);
          return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
        }),
        steps: [
          new Step(shardLayers, { axis, batch: 'own' }),
          ...layers.map(({ module: { path, parameters }, style }) => {
            const names = [...parameters].map(([key, { name }]) => [key, name] as const);
            const step = {
              axis,
              module: path,
              style,
              parameters: Object.fromEntries(names),
              tokens,
            };
            return new Step(runLayer, step);
          }),
          new Step(shareBuffers, { axes: [axis] }),
        ],
      };
    },
  };
}

function noExperts(axis: string): LayoutError {
  return new LayoutError(
    {
      asked: `expertParallel() over '${axis}'`,
      found: 'a model without a layer of experts',
      todo: 'Use nn.MixtureOfExperts in it, or ddp()',
    },
    { axis },
  );
}
