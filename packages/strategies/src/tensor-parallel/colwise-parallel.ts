import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  lowered,
  option,
  type OptionRules,
  type DimSharding,
  type ParameterSpec,
  redistributeOver,
  shard,
} from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import {
  adapterShardings,
  isAdapted,
  sharedAdapterParameters,
  sharedProductOver,
} from './adapted-product.ts';
import { blockShardings, productOf, requireWeight } from './blocked-weight.ts';
import { type GatherAgainOptions, gatherAgainRules, sendingAgain } from './gather-again.ts';
import { requireLinear } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { evenSharding } from './even-sharding.ts';
import { sharedGradients } from './shared-gradients.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

/** Options of `colwiseParallel`. */
export interface ColwiseParallelOptions extends GatherAgainOptions {
  /** The layout in which the module is called. It computes with all features on every rank. Default: invariant. */
  readonly input?: ActivationLayout;
  /** The layout of the result. Default: shard(-1), so each rank has its features. */
  readonly output?: ActivationLayout;
  /**
   * For fused projections: the number of heads in each section of the output features, for example [H, G, G]
   * for queries, keys and values. Each rank has its share of each section, in whole heads.
   */
  readonly heads?: readonly number[];
  /** Whether the weight is [in, out], as that of GPT-2's Conv1D, and not [out, in]. Default: false. */
  readonly transposed?: boolean;
}

const colwiseParallelRules: OptionRules<ColwiseParallelOptions> = {
  ...gatherAgainRules,
  input: activationRule,
  output: activationRule,
  heads: option.listOf(option.count),
  transposed: option.flag,
};

const name = 'colwiseParallel';

/**
 * A Linear of which each rank has a part of the output features (PyTorch's ColwiseParallel, Megatron's
 * ColumnParallelLinear). Planning throws LayoutError if they cannot be divided evenly.
 */
export function colwiseParallel(options: ColwiseParallelOptions = {}): ParallelStyle {
  checkOptions('colwiseParallel', options, colwiseParallelRules);
  const { input = 'invariant', output = shard(-1), heads, gatherAgain = false } = options;
  const { transposed = false } = options;
  return {
    name,
    shardings(module, size) {
      const weight = requireWeight(module, name);
      const sections = heads === undefined ? {} : { heads };
      const rowsOf = ({ name: own, shape }: ParameterSpec, dim: number): DimSharding =>
        evenSharding({ name: own, shape, dim, size, ...sections });
      const bias = module.parameters.get('bias');
      return new Map([
        ...(blockShardings(module, 'outputs', { size, style: name, heads }) ?? [
          ['weight', rowsOf(weight, transposed ? 1 : 0)] as const,
        ]),
        ...(bias === undefined ? [] : [['bias', rowsOf(bias, 0)] as const]),
        ...adapterShardings(module, 'outputs', size, heads),
      ]);
    },
    collectives(module, tokens) {
      const { features, inputs, dtype } = productOf(module, name, transposed);
      return [
        ...activationCollectives({
          module: module.path,
          from: input,
          to: 'replicate',
          elements: tokens * inputs,
          dtype,
          again: gatherAgain,
        }),
        ...activationCollectives({
          module: module.path,
          from: shard(-1),
          to: output,
          elements: tokens * features,
          dtype,
        }),
        ...sharedGradients(sharedAdapterParameters(module, 'outputs')),
      ];
    },
    check(module, path) {
      requireLinear(module, path, name, transposed);
    },
    install(module, place, path) {
      const { axis } = place;
      const shared = sharedProductOver(place, 'outputs', heads);
      const linear = requireLinear(module, path, name, transposed);
      wrapMethod(linear, 'forward', ([x], forward) => {
        const multiply = (): unknown => {
          const all = redistributeOver(lowered(requireTensor(x, path)), axis, input, 'replicate');
          if (!isAdapted(linear)) return forward([all]);
          const product = linear.sharedProduct(all, shared);
          return linear.bias === null ? product : product.add(lowered(linear.bias));
        };
        const product = gatherAgain ? sendingAgain(multiply) : multiply();
        return redistributeOver(requireTensor(product, path), axis, shard(-1), output);
      });
    },
  };
}
