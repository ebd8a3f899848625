import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  lowered,
  option,
  type OptionRules,
  shard,
} from '@shardwise/core/extend';
import { isAdapted, sharedProductOver } from './adapted-product.ts';
import { linearKind } from './blocked-weight.ts';
import { type GatherAgainOptions, gatherAgainRules } from './gather-again.ts';
import { requireLinear } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { requireTensor } from './wrap-method.ts';

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
  const outputs = { shard: 0, heads };
  return {
    name,
    kind: linearKind(name, transposed),
    parameters: {
      weight: { ...outputs, transposed },
      absmax: outputs,
      bias: outputs,
      'lora_A.weight': 'replicate',
      'lora_B.weight': outputs,
      lora_magnitude_vector: outputs,
    },
    inputs: { forward: [{ from: input, to: 'replicate' }] },
    output: { from: shard(-1), to: output },
    gatherAgain,
    install(module, place, path) {
      const linear = requireLinear(module, path, name, transposed);
      if (!isAdapted(linear)) return undefined;
      const shared = sharedProductOver(place, 'outputs', heads);
      return {
        run([x]) {
          const product = linear.sharedProduct(requireTensor(x, path), shared);
          return linear.bias === null ? product : product.add(lowered(linear.bias));
        },
      };
    },
  };
}
