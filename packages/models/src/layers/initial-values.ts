import {
  checkOptions,
  defaultGenerator,
  elementCount,
  Embedding,
  type Generator,
  Linear,
  type OptionRules,
  Parameter,
  type Shape,
} from '@shardwise/core/extend';
import { LanguageModelHead } from './language-model-head.ts';
import { pretrainedRules, type PretrainedOptions } from '../model/pretrained-model.ts';

/**
 * Makes layers with the initial values of Hugging Face's models: normal weights, and biases of zeros. Without random
 * values, weights are zeros, which cost no time and, until they are written, no memory.
 */
export class InitialValues {
  readonly #generator: Generator | null;
  readonly #std: number;

  /** `std` is the `initializer_range` of the config. `rules` are those of all options of the model. */
  constructor(
    options: PretrainedOptions,
    std: number,
    rules: OptionRules<PretrainedOptions> = pretrainedRules,
  ) {
    checkOptions('a model', options, rules);
    const isRandom = options.initialValues !== 'zeros';
    this.#generator = isRandom ? (options.generator ?? defaultGenerator()) : null;
    this.#std = std;
  }

  /** A weight of normal values. `std` replaces the standard deviation of the config. */
  weight(shape: Shape, std: number = this.#std): Parameter {
    const count = elementCount(shape);
    return new Parameter(this.#generator?.normal(count, 0, std) ?? new Float32Array(count), shape);
  }

  constant(shape: Shape, value: number): Parameter {
    return new Parameter(new Float32Array(elementCount(shape)).fill(value), shape);
  }

  /** Weight [outFeatures, inFeatures]. */
  linear(
    inFeatures: number,
    outFeatures: number,
    { bias = true, std }: { readonly bias?: boolean; readonly std?: number } = {},
  ): Linear {
    const layer = new Linear(0, 0, { bias: false });
    layer.weight = this.weight([outFeatures, inFeatures], std);
    if (bias) layer.bias = this.constant([outFeatures], 0);
    return layer;
  }

  /** The head of a language model. Its weight is that of `tied`, or its own if this is null. */
  head(
    features: number,
    vocabSize: number,
    { tied, softcap }: { readonly tied: Embedding | null; readonly softcap?: number | undefined },
  ): LanguageModelHead {
    return new LanguageModelHead(tied?.weight ?? this.weight([vocabSize, features]), softcap);
  }

  /** Weight [numEmbeddings, embeddingDim]. The row `paddingIdx` is zeros and gets no gradient. */
  embedding(numEmbeddings: number, embeddingDim: number, paddingIdx?: number | null): Embedding {
    const count = numEmbeddings * embeddingDim;
    const values = this.#generator?.normal(count, 0, this.#std) ?? new Float32Array(count);
    if (typeof paddingIdx !== 'number') {
      const layer = new Embedding(0, embeddingDim);
      layer.weight = new Parameter(values, [numEmbeddings, embeddingDim]);
      return layer;
    }
    values.fill(0, paddingIdx * embeddingDim, (paddingIdx + 1) * embeddingDim);
    return new PaddedEmbedding(new Parameter(values, [numEmbeddings, embeddingDim]), paddingIdx);
  }
}

/** An Embedding of values that are there, with a row that gets no gradient. */
class PaddedEmbedding extends Embedding {
  override readonly paddingIdx: number;

  constructor(weight: Parameter, paddingIdx: number) {
    super(0, weight.shape[1] ?? 0);
    this.weight = weight;
    this.paddingIdx = paddingIdx;
  }
}
