import {
  type ActivationLayout,
  asVarying,
  checkOptions,
  Embedding,
  functional,
  indicesInRange,
  option,
  type OptionRules,
  type Tensor,
  unsummedRule,
} from '@shardwise/core/extend';
import { requireModule, requireParameter } from './module-spec.ts';
import type { ParallelStyle } from './parallel-style.ts';
import { requireTensor } from './wrap-method.ts';

/** Options of `vocabParallelEmbedding`. */
export interface VocabParallelEmbeddingOptions {
  /**
   * The layout of the result. Default: invariant, by an all-reduce. With sequence parallelism it is shard(1),
   * by a reduce-scatter.
   */
  readonly output?: Exclude<ActivationLayout, 'partial'>;
}

const vocabParallelEmbeddingRules: OptionRules<VocabParallelEmbeddingOptions> = {
  output: unsummedRule,
};

const name = 'vocabParallelEmbedding';

/**
 * An Embedding of which rank r of t has the rows from rV/t to (r+1)V/t - 1 (Megatron's VocabParallelEmbedding).
 * Planning throws LayoutError for a vocabulary that t does not divide. Pad the vocabulary of the model in this
 * case.
 */
export function vocabParallelEmbedding(options: VocabParallelEmbeddingOptions = {}): ParallelStyle {
  checkOptions('vocabParallelEmbedding', options, vocabParallelEmbeddingRules);
  const { output = 'invariant' } = options;
  return {
    name,
    kind: {
      check(module, path) {
        const { weight, paddingIdx } = requireModule(module, Embedding, path, name);
        if (paddingIdx === undefined) return;
        const rule = option.required(option.integer(0, (weight.shape[0] ?? 0) - 1));
        checkOptions(`${name}() of '${path}'`, { paddingIdx }, { paddingIdx: rule });
      },
      sizes(module) {
        const { shape, dtype } = requireParameter(module, 'weight', 2, name);
        return { input: 1, output: shape[1] ?? 0, dtype };
      },
    },
    parameters: { weight: { shard: 0 } },
    inputs: { forward: [] },
    output: { from: 'partial', to: output },
    install(module, { axis, size, rank }, path) {
      const embedding = requireModule(module, Embedding, path, name);
      return {
        run([indices]) {
          const inRange = indicesInRange(
            requireTensor(indices, path),
            size * (embedding.weight.shape[0] ?? 0),
            'embedding',
          );
          return ownRows(asVarying(inRange, axis), embedding, rank);
        },
      };
    },
  };
}

/**
 * Returns zeros for tokens whose rows other ranks have. `indices` must be varying, because each rank looks for other
 * rows. Shape: indices i32 N -> [N.., D].
 */
function ownRows(indices: Tensor, { weight, paddingIdx }: Embedding, rank: number): Tensor {
  const [rows = 0] = weight.shape;
  const own = indices.sub(rank * rows);
  const isOwn = own.ge(0).logicalAnd(own.lt(rows));
  const place = paddingIdx === undefined ? -1 : paddingIdx - rank * rows;
  // If the padding row belongs to another rank, this rank has none.
  const padding = place >= 0 && place < rows ? place : undefined;
  const found = functional.embedding(isOwn.where(own, 0), weight, padding);
  return isOwn.unsqueeze(-1).where(found, 0);
}
