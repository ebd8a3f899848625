import {
  type ActivationLayout,
  checkOptions,
  ConfigError,
  joinLayouts,
  LayoutError,
  layoutOver,
  type ModelSpec,
  option,
  type OptionRules,
  type Strategy,
  unsummedRule,
} from '@shardwise/core/extend';
import { broadcastBuffers } from '../distributed-data-parallel/broadcast-buffers.ts';
import { expertsStyle, looksLikeExperts } from './experts-style.ts';
import { tokensStyle } from './tokens-style.ts';
import { requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import type { ModuleSpec, ParallelStyle } from '../tensor-parallel/parallel-style.ts';
import { runLayer, type RunLayer } from '../tensor-parallel/run-layer.ts';
import { shardLayers } from '../tensor-parallel/shard-layers.ts';
import {
  shardingsOf,
  type StyledModule,
  styledModules,
} from '../tensor-parallel/styled-modules.ts';

/** Options of `expertParallel`. */
export interface ExpertParallelOptions {
  /**
   * The mesh axes whose ranks divide the experts of each layer and, except for the axes in `sameTokens`, the
   * batch. With several axes, rows are sent over one after the other, first over the first axis, which should
   * be inside a host. Default: `ep`.
   */
  readonly axis?: string | readonly string[];
  /**
   * The axes whose ranks have the same tokens, as in `tensorParallel`. Each of these ranks routes a part of the
   * tokens. So one mesh has one grid for experts and another one for other layers. Default: none.
   */
  readonly sameTokens?: readonly string[];
  /**
   * The layout of tokens on the ranks of `sameTokens` around a layer: shard(1) between layers of sequence
   * parallelism. Default: invariant.
   */
  readonly input?: Exclude<ActivationLayout, 'partial' | 'replicate'>;
  /** The number of routes of a token, for the bytes in the plan. Default: 2, as in topKGate(). */
  readonly k?: number;
  /**
   * The most tokens of a rank's batch. Ranks reserve room for this many tokens of each other rank, and the bytes in the
   * plan are those of this many tokens. Default: the number of this rank's tokens, and 1 for the bytes.
   */
  readonly tokens?: number;
}

const optionRules: OptionRules<ExpertParallelOptions> = {
  axis: option.either(option.axisName, option.listOf(option.axisName)),
  sameTokens: option.listOf(option.axisName),
  input: {
    fits: (value): value is NonNullable<ExpertParallelOptions['input']> =>
      unsummedRule.fits(value) && value !== 'replicate',
    expected: "'invariant' or shard(dim)",
  },
  k: option.integer(1),
  tokens: option.integer(1),
};

/**
 * Divides the experts of `nn.MixtureOfExperts` among ranks that have different tokens (Lepikhin et al. 2020).
 * Rows are sent to their experts and back. Everything else is on every rank, and its gradients are averaged
 * over the axis during the backward pass. Gradients of experts, which have seen the tokens of all these ranks,
 * are divided by the number of these ranks. So the strategy divides the batch, as ddp does. It comes before a
 * strategy that divides the batch over other axes: `compose(expertParallel(), fsdp())`. If other layers use
 * tensor parallelism, its ranks can divide the experts too. Then more ranks divide the experts than divide the
 * batch:
 *
 *     compose(tensorParallel(styles), expertParallel({ axis: ['tp', 'ep'], sameTokens: ['tp'] }), fsdp())
 *
 * When it is applied, all ranks of the axis get rank 0's parameters and buffers. Throws ConfigError for axes
 * that occur twice, and for axes of `sameTokens` that are not in `axis`.
 */
export function expertParallel(options: ExpertParallelOptions = {}): Strategy {
  checkOptions('expertParallel', options, optionRules);
  const { axis = 'ep', sameTokens = [], input = 'invariant', k = 2, tokens = 1 } = options;
  const over = typeof axis === 'string' ? [axis] : axis;
  requireOwnAxes(over, sameTokens);
  const ownTokens = over.filter((each) => !sameTokens.includes(each));
  return {
    specificationVersion: 1,
    name: 'expert-parallel',
    plan(model, axes): ModelPlan {
      const sizes = over.map((each) => requireAxis('expertParallel', axes, each));
      const sizeOf = (names: readonly string[]): number =>
        names.reduce((product, each) => product * (sizes[over.indexOf(each)] ?? 1), 1);
      // Each of the ranks with the same tokens routes an equal part of them.
      const routed = Math.ceil(tokens / sizeOf(sameTokens));
      const styleOf = (index: number): ParallelStyle =>
        expertsStyle({ k, limit: routed, before: sizeOf(over.slice(0, index)) });
      const exchanges = over.map((each, index) => ({ axis: each, style: styleOf(index) }));
      const layers = layersOf(model, styleOf(0));
      if (layers.length === 0) throw noExperts(over);
      const shardings = shardingsOf(
        Object.fromEntries(layers.map(({ module, style }) => [module.path, style])),
        model,
        sizeOf(over),
      );
      const run = ({ path, parameters }: ModuleSpec, of: RunsLayer): Step<RunLayer> => {
        const names = [...parameters].map(([key, { name }]) => [key, name] as const);
        return new Step(runLayer, { ...of, module: path, parameters: Object.fromEntries(names) });
      };
      return {
        strategy: 'expert-parallel',
        axes,
        batch: { dims: ownTokens.length === 0 ? [] : [ownTokens], partial: [] },
        parameters: model.parameters.map((parameter) => {
          const sharding = shardings.get(parameter.name) ?? 'invariant';
          const layout = over
            .map((each) => layoutOver(each, sharding, parameter.shape.length))
            .reduce(joinLayouts);
          return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
        }),
        steps: [
          ...over.map((each) =>
            sameTokens.includes(each)
              ? new Step(shardLayers, { axis: each, joins: true })
              : new Step(shardLayers, { axis: each, batch: 'own' }),
          ),
          ...layers.flatMap(({ module }) => [
            // Rows pass first through the exchange that is wrapped around the experts last.
            ...exchanges.toReversed().map((own) => run(module, { ...own, tokens: routed })),
            ...sameTokens.flatMap((each) =>
              sizeOf([each]) === 1
                ? []
                : run(module, { axis: each, style: tokensStyle(input, each), tokens }),
            ),
          ]),
          ...(ownTokens.length === 0 ? [] : [new Step(broadcastBuffers, { axes: ownTokens })]),
        ],
      };
    },
  };
}

type RunsLayer = Pick<RunLayer, 'axis' | 'style' | 'tokens'>;

/** Returns the layers of experts of a model. */
function layersOf(model: ModelSpec, style: ParallelStyle): readonly StyledModule[] {
  return styledModules({ '**': style }, model).filter(({ module }) => looksLikeExperts(module));
}

function requireOwnAxes(over: readonly string[], sameTokens: readonly string[]): void {
  const isSound = over.length > 0 && [over, sameTokens].every((x) => new Set(x).size === x.length);
  const foreign = sameTokens.find((each) => !over.includes(each));
  if (isSound && foreign === undefined) return;
  const formatted = over.join("', '");
  throw new ConfigError(
    {
      asked: `expertParallel() over '${formatted}' with the same tokens on the ranks of '${sameTokens.join("', '")}'`,
      found:
        foreign === undefined
          ? 'no axis, or an axis twice'
          : `'${foreign}', which is not an axis that divides experts`,
      todo: 'Name each axis once in `axis`. In `sameTokens`, name each of these axes once whose ranks have the same tokens',
    },
    { axis: over, sameTokens },
  );
}

function noExperts(over: readonly string[]): LayoutError {
  return new LayoutError(
    {
      asked: `expertParallel() over '${over.join("', '")}'`,
      found: 'a model without a layer of experts',
      todo: 'Use nn.MixtureOfExperts in it, or ddp()',
    },
    { axis: over },
  );
}
