import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  option,
  type OptionRules,
  shard,
} from '@shardwise/core/extend';
import type { ActivationSizes, ModuleSpec, ParallelStyle } from './parallel-style.ts';

/** Options of `sequenceParallel`. */
export interface SequenceParallelOptions {
  /** The dim along which the ranks have parts. Default: 1, the tokens of [B, T, C]. */
  readonly dim?: number;
  /** The layout in which the module is called. Default: shard(dim). */
  readonly input?: ActivationLayout;
  /** The layout of the result. Default: shard(dim). */
  readonly output?: ActivationLayout;
}

const sequenceParallelRules: OptionRules<SequenceParallelOptions> = {
  dim: option.integer(Number.MIN_SAFE_INTEGER),
  input: activationRule,
  output: activationRule,
};

/**
 * A module that computes each token by itself (a norm, a dropout, an embedding of positions) and in which each
 * rank has a part of the tokens (Korthikanti et al. 2022; PyTorch's SequenceParallel). Its parameters are whole
 * on every rank, and their gradients are summed. Random numbers differ between ranks. For norms, a plan lists
 * the messages of changes of the input and output. It does not know the sizes of other modules.
 */
export function sequenceParallel(options: SequenceParallelOptions = {}): ParallelStyle {
  checkOptions('sequenceParallel', options, sequenceParallelRules);
  const { dim = 1 } = options;
  const own = shard(dim);
  const { input = own, output = own } = options;
  return {
    name: 'sequenceParallel',
    kind: { sizes: sizesOfNorm },
    parameters: {},
    others: 'replicate',
    inputs: { forward: [{ from: input, to: own }] },
    output: { from: own, to: output },
    drawsOwn: true,
  };
}

/** Returns the sizes of a norm, and null for other modules. */
function sizesOfNorm({ parameters }: ModuleSpec): ActivationSizes | null {
  const weight = parameters.get('weight');
  const [features] = weight?.shape ?? [];
  if (weight?.shape.length !== 1 || features === undefined) return null;
  return { input: features, output: features, dtype: weight.dtype };
}
