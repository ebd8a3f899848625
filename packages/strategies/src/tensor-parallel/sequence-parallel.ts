import {
  type ActivationLayout,
  activationRule,
  checkOptions,
  option,
  type OptionRules,
  redistributeOver,
  shard,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import { activationCollectives } from './activation-collectives.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { sharedGradients } from './shared-gradients.ts';
import { withReplicatedParameters } from './replicated-parameters.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

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
    shardings: () => new Map(),
    collectives({ path, parameters }, tokens) {
      const weight = parameters.get('weight');
      const isNorm = weight?.shape.length === 1;
      const changes = isNorm
        ? [
            { from: input, to: own },
            { from: own, to: output },
          ]
        : [];
      return [
        ...changes.flatMap((change) =>
          activationCollectives({
            ...change,
            module: path,
            elements: tokens * (weight?.shape[0] ?? 0),
            dtype: weight?.dtype ?? 'f32',
          }),
        ),
        ...sharedGradients(parameters.values()),
      ];
    },
    install(module, { axis, rank }, path) {
      const parameters = module.parameters.bind(module);
      wrapMethod(module, 'forward', ([x, ...rest], forward) => {
        const part = redistributeOver(requireTensor(x, path), axis, input, own);
        const result = withCoordinateKeys(rank, () =>
          withReplicatedParameters(module, parameters(), axis, () => forward([part, ...rest])),
        );
        return redistributeOver(requireTensor(result, path), axis, own, output);
      });
    },
  };
}
