import {
  checkOptions,
  LayoutError,
  layoutOver,
  type ModelSpec,
  option,
  type OptionRules,
  type RequiredRule,
  type Strategy,
} from '@shardwise/core/extend';
import {
  checkComputePrecision,
  type MixedPrecision,
  plannedPrecision,
} from '../mixed-precision/mixed-precision.ts';
import { requireAxis } from '../plan/axes.ts';
import { matchesModule } from '../plan/matches-module.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { runLayer } from './run-layer.ts';
import { shardLayers } from './shard-layers.ts';
import { shardingsOf, styledModules, type StylePlan } from './styled-modules.ts';

/** Options of `tensorParallel`. */
export interface TensorParallelOptions {
  /** The mesh axis whose ranks shard each layer. All of them get the same batch. Default: `tp`. */
  readonly axis?: string;
  /** The number of tokens of a rank's batch, for the bytes in the plan. Default: 1. */
  readonly tokens?: number;
  /** The dtype of products. Parameters and their gradients are f32. Default: everything is f32. */
  readonly mixedPrecision?: Pick<MixedPrecision, 'computeDtype' | 'outputDtype'>;
}

const optionRules: OptionRules<TensorParallelOptions> = {
  axis: option.axisName,
  tokens: option.integer(1),
  mixedPrecision: option.object(),
};

const stylesRules = { styles: option.required(option.object<StylePlan>('styles by module')) };

/** Throws ConfigError for what is no style, such as the function that makes one. */
function checkStyles(styles: Readonly<Record<string, object>>): asserts styles is StylePlan {
  const style: RequiredRule<ParallelStyle> = option.required({
    fits: (value): value is ParallelStyle =>
      typeof value === 'object' && value !== null && 'inputs' in value && 'output' in value,
    expected: 'a style, such as colwiseParallel()',
  });
  const rules = Object.fromEntries(Object.keys(styles).map((pattern) => [pattern, style]));
  checkOptions('tensorParallel', styles, rules);
}

/**
 * Tensor and sequence parallelism (Shoeybi et al. 2019; Korthikanti et al. 2022) as a strategy. Like PyTorch's
 * parallelize_module, it takes a style for each module that a pattern matches. Without styles, it takes those that the
 * model gives (Module.division). Between styled modules, activations are the same on all ranks of the axis, unless the
 * styles say otherwise.
 *
 *     tensorParallel({ 'blocks.*.up': colwiseParallel(), 'blocks.*.down': rowwiseParallel() })
 *
 * When it is applied, all ranks of the axis get rank 0's parameters, buffers and keys of random numbers.
 */
export function tensorParallel(styles?: StylePlan, options: TensorParallelOptions = {}): Strategy {
  checkOptions('tensorParallel', options, optionRules);
  if (styles !== undefined) {
    checkOptions('tensorParallel', { styles }, stylesRules);
    checkStyles(styles);
  }
  checkComputePrecision('tensorParallel', options.mixedPrecision);
  const { axis = 'tp', tokens = 1 } = options;
  return {
    specificationVersion: 1,
    name: 'tensor-parallel',
    plan(model, axes): ModelPlan {
      const size = requireAxis('tensor parallelism', axes, axis);
      const used = styles ?? stylesOf(model, size);
      requireModules(model, used);
      const shardings = shardingsOf(used, model, size);
      return {
        strategy: 'tensor-parallel',
        axes,
        batch: { dims: [], partial: [] },
        parameters: model.parameters.map((parameter) => {
          const own = shardings.get(parameter.name) ?? 'invariant';
          const layout = layoutOver(axis, own, parameter.shape.length);
          return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
        }),
        steps: [
          new Step(shardLayers, { axis }),
          ...styledModules(used, model).map(({ module: { path, parameters }, style }) => {
            const names = [...parameters].map(([own, { name }]) => [own, name] as const);
            return new Step(runLayer, {
              axis,
              module: path,
              style,
              parameters: Object.fromEntries(names),
              tokens,
            });
          }),
        ],
        ...plannedPrecision(options.mixedPrecision),
      };
    },
  };
}

/** Returns the styles that a model gives. Throws LayoutError if it gives none. */
function stylesOf({ division }: ModelSpec, ranks: number): StylePlan {
  const styles = division?.styles?.(ranks);
  if (styles === undefined) {
    throw new LayoutError({
      asked: 'tensorParallel() without styles',
      found: 'a model whose modules say nothing of their division',
      todo: "Give styles by module: tensorParallel({ 'blocks.*.up': colwiseParallel() }), or give the model a method division()",
    });
  }
  checkStyles(styles);
  return styles;
}

/** Throws LayoutError for a pattern that matches no module. */
function requireModules({ modules }: ModelSpec, styles: StylePlan): void {
  if (modules === undefined) return;
  for (const [pattern, style] of Object.entries(styles)) {
    if (modules.some((path) => matchesModule(pattern, path))) continue;
    throw new LayoutError(
      {
        asked: `${style.name}() of '${pattern}'`,
        found: `no module of this name; there are ${modules.slice(1, 8).join(', ')}, …`,
        todo: 'Name modules of the model; * stands for one name',
      },
      { pattern },
    );
  }
}
