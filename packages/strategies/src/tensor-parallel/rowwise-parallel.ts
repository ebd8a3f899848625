import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  functional,
  lowered,
  option,
  type OptionRules,
  redistributeOver,
  reinterpret,
  shard,
  unsummedRule,
} from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import {
  adapterShardings,
  isAdapted,
  sharedAdapterParameters,
  sharedProductOver,
} from './adapted-product.ts';
import { blockShardings, productOf, requireWeight } from './blocked-weight.ts';
import { requireLinear } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { evenSharding } from './even-sharding.ts';
import { sharedGradients } from './shared-gradients.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

/** Options of `rowwiseParallel`. */
export interface RowwiseParallelOptions {
  /** The layout in which the module is called. It computes with a part of the features. Default: shard(-1). */
  readonly input?: ActivationLayout;
  /**
   * The layout of the result. Default: invariant, by an all-reduce. With sequence parallelism it is shard(1),
   * by a reduce-scatter.
   */
  readonly output?: Exclude<ActivationLayout, 'partial'>;
  /** Whether the weight is [in, out], as that of GPT-2's Conv1D, and not [out, in]. Default: false. */
  readonly transposed?: boolean;
}

const rowwiseParallelRules: OptionRules<RowwiseParallelOptions> = {
  input: activationRule,
  output: unsummedRule,
  transposed: option.flag,
};

const name = 'rowwiseParallel';

/**
 * A Linear of which each rank has a part of the input features (PyTorch's RowwiseParallel, Megatron's
 * RowParallelLinear). The bias is added once, to the sum. Planning throws LayoutError if the features cannot be
 * divided evenly.
 */
export function rowwiseParallel(options: RowwiseParallelOptions = {}): ParallelStyle {
  checkOptions('rowwiseParallel', options, rowwiseParallelRules);
  const { input = shard(-1), output = 'invariant', transposed = false } = options;
  return {
    name,
    shardings(module, size) {
      const { name: weight, shape } = requireWeight(module, name);
      return new Map([
        ...(blockShardings(module, 'inputs', { size, style: name }) ?? [
          ['weight', evenSharding({ name: weight, shape, dim: transposed ? 0 : 1, size })] as const,
        ]),
        ...adapterShardings(module, 'inputs', size),
      ]);
    },
    collectives(module, tokens) {
      const { features, inputs, dtype } = productOf(module, name, transposed);
      const bias = module.parameters.get('bias');
      return [
        ...activationCollectives({
          module: module.path,
          from: input,
          to: shard(-1),
          elements: tokens * inputs,
          dtype,
        }),
        ...activationCollectives({
          module: module.path,
          from: 'partial',
          to: output,
          elements: tokens * features,
          dtype,
        }),
        ...(bias === undefined || output === 'invariant' ? [] : sharedGradients([bias])),
        ...sharedGradients(sharedAdapterParameters(module, 'inputs')),
      ];
    },
    check(module, path) {
      requireLinear(module, path, name, transposed);
    },
    install(module, place, path) {
      const { axis } = place;
      const shared = sharedProductOver(place, 'inputs');
      const linear = requireLinear(module, path, name, transposed);
      wrapMethod(linear, 'forward', ([x]) => {
        const own = redistributeOver(lowered(requireTensor(x, path)), axis, input, shard(-1));
        const { weight } = linear;
        const product = isAdapted(linear)
          ? linear.sharedProduct(own, shared)
          : transposed
            ? own.matmul(weight)
            : functional.linear(own, weight);
        const sum = redistributeOver(product, axis, 'partial', output);
        const { bias } = linear;
        if (bias === null) return sum;
        return sum.add(
          lowered(
            output === 'invariant' ? bias : reinterpret(bias, axis, 'invariant', 'replicate'),
          ),
        );
      });
    },
  };
}
