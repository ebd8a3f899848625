import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  functional,
  option,
  type OptionRules,
  shard,
  unsummedRule,
} from '@shardwise/core/extend';
import { isAdapted, sharedProductOver } from './adapted-product.ts';
import { linearKind } from './blocked-weight.ts';
import { requireLinear } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { requireTensor } from './wrap-method.ts';

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
  const inputs = { shard: 1 };
  return {
    name,
    kind: linearKind(name, transposed),
    parameters: {
      weight: { ...inputs, transposed },
      absmax: inputs,
      bias: output === 'invariant' ? 'invariant' : 'replicate',
      'lora_A.weight': inputs,
      'lora_B.weight': 'replicate',
      lora_magnitude_vector: 'replicate',
    },
    inputs: { forward: [{ from: input, to: shard(-1) }] },
    output: { from: 'partial', to: output },
    install(module, place, path) {
      const linear = requireLinear(module, path, name, transposed);
      const shared = sharedProductOver(place, 'inputs');
      return {
        run([input]) {
          const x = requireTensor(input, path);
          if (isAdapted(linear)) return linear.sharedProduct(x, shared);
          return transposed ? x.matmul(linear.weight) : functional.linear(x, linear.weight);
        },
        added: () => linear.bias,
      };
    },
  };
}
