import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  replicated,
  type Strategy,
} from '@shardwise/core/extend';
import { requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';
import type { SequencesOf } from './cut-inputs.ts';
import { cutSequences } from './cut-sequences.ts';
import type { ContextLossWeight } from './join-outputs.ts';
import { type ContextMethod, contextMethods } from './methods.ts';

/** Options of `contextParallel`. */
export interface ContextParallelOptions {
  /** The mesh axis whose ranks have parts of the same sequences. All of them get the same batch. Default: `cp`. */
  readonly axis?: string;
  /**
   * How queries come to the keys of other ranks. `ring`: blocks of keys and values pass from rank to rank, and a rank has
   * at most two (Liu et al. 2023). `allGather`: each rank collects all keys and values. `ulysses`: ranks exchange tokens
   * for heads, and each has all tokens of some heads (Jacobs et al. 2023). `usp`: groups of `ulyssesRanks` neighbouring
   * ranks exchange heads, and pass keys on in a ring of groups (Fang and Zhao 2024). Default: `ring`.
   */
  readonly method?: ContextMethod;
  /** For `usp`: how many neighbouring ranks exchange heads. They should be on one host. Default: 2. */
  readonly ulyssesRanks?: number;
  /**
   * Which tokens a rank has. `headTail`: some from the front and some from the back, so that all ranks have as much causal
   * attention to compute. `contiguous`: tokens that follow each other. Default: `headTail`.
   */
  readonly order?: 'headTail' | 'contiguous';
  /**
   * What `arange(n)` means in a forward pass, if n is the number of this rank's tokens. `places`: the places of these tokens in
   * their sequence, in a model that numbers its tokens itself. Default: `refused`, so that a model that is not asked
   * about cannot number the tokens of each rank from 0.
   */
  readonly arange?: 'places' | 'refused';
  /**
   * How a loss that the model returns for a part of the tokens counts in that of all: `tokens` for a mean over all of
   * them, `sum`, or a function of the inputs of the part that returns what the loss was divided by. Models of
   * `@shardwise/models` know it. Default: not known, and such a loss is an error.
   */
  readonly lossWeight?: Exclude<ContextLossWeight, 'share'>;
  /**
   * Which inputs of `forward` are sequences, of which each may have another length, such as the tokens of a decoder and those of
   * its encoder: a function of the inputs that returns tensors whose dim 1 counts tokens. Other tensors with as many tokens are
   * cut like them, and all others stay whole on each rank. Default: the first tensor is the only sequence.
   */
  readonly sequences?: SequencesOf;
}

const lossWeightRule: OptionRules<ContextParallelOptions>['lossWeight'] = {
  fits: (value): value is NonNullable<ContextParallelOptions['lossWeight']> =>
    value === 'tokens' || value === 'sum' || typeof value === 'function',
  expected: "'tokens', 'sum' or a function",
};

const optionRules: OptionRules<ContextParallelOptions> = {
  axis: option.axisName,
  method: option.oneOf(...contextMethods),
  ulyssesRanks: option.integer(1),
  order: option.oneOf('headTail', 'contiguous'),
  arange: option.oneOf('places', 'refused'),
  lossWeight: lossWeightRule,
  sequences: option.callback(),
};

/**
 * Context parallelism: the ranks of an axis have parts of the same sequences, and compute each layer for their own tokens.
 * Only attention needs the tokens of other ranks. `forward` is given whole sequences on all ranks of the axis, cuts
 * them, and returns the result for whole sequences: logits of all tokens, or the loss of all tokens.
 *
 * It shares no parameters. Another strategy does, to which the parts are parts of a batch:
 *
 *     compose(contextParallel(), ddp({ axis: 'cp' }))
 *     compose(contextParallel({ method: 'ulysses' }), fsdp({ axis: 'dp', replicas: 'cp' }))
 *     compose(tensorParallel(), contextParallel(), zero({ stage: 2, axis: 'cp' }))
 *
 * Every call of `scaledDotProductAttention` in a forward pass attends to the tokens of all ranks, with causal, with keyRanges,
 * which count places of the whole sequence, and with a mask of keys. Keys may be those of another sequence than the queries.
 * Keys that all ranks have, as those of a memory that is not cut, stay where they are. Sequences that the ranks do not divide are padded. Throws LayoutError for what a method
 * cannot compute exactly.
 */
export function contextParallel(options: ContextParallelOptions = {}): Strategy {
  checkOptions('contextParallel', options, optionRules);
  const { axis = 'cp', method = 'ring', ulyssesRanks, arange = 'refused' } = options;
  if (ulyssesRanks !== undefined && method !== 'usp') throw withoutGroups(method);
  return {
    specificationVersion: 1,
    name: 'context-parallel',
    plan({ parameters }, axes): ModelPlan {
      const size = requireAxis('contextParallel', axes, axis);
      const neighbours = neighboursOf(method, ulyssesRanks ?? 2, size);
      const { order = 'headTail', lossWeight, sequences } = options;
      return {
        strategy: 'context-parallel',
        axes,
        batch: { dims: [], partial: [] },
        parameters: parameters.map((each) => {
          const whole = replicated(each.shape);
          return { ...each, parameter: whole, gradient: whole, optimizer: whole };
        }),
        steps: [
          new Step(cutSequences, {
            axis,
            method,
            neighbours,
            order,
            countsPlaces: arange === 'places',
            ...(lossWeight === undefined ? {} : { lossWeight }),
            ...(sequences === undefined ? {} : { sequences }),
          }),
        ],
      };
    },
  };
}

/** How many neighbouring ranks exchange heads. */
function neighboursOf(method: ContextMethod, ulyssesRanks: number, ranks: number): number {
  if (method === 'ulysses') return ranks;
  if (method !== 'usp') return 1;
  if (ranks % ulyssesRanks === 0) return ulyssesRanks;
  throw new ConfigError(
    {
      asked: `contextParallel({ method: 'usp', ulyssesRanks: ${ulyssesRanks} })`,
      found: `an axis of ${ranks} ranks, which is not a multiple of it`,
      todo: `Choose a divisor of ${ranks}`,
    },
    { ulyssesRanks, ranks },
  );
}

function withoutGroups(method: ContextMethod): ConfigError {
  return new ConfigError(
    {
      asked: `contextParallel({ method: '${method}' }) with ulyssesRanks`,
      found: "an option of the method 'usp', whose neighbouring ranks exchange heads",
      todo: "Leave it out, or use the method 'usp'",
    },
    { method },
  );
}
