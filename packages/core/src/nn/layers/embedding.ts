import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { embedding } from '../functional/embedding.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

export interface EmbeddingOptions {
  /** The index of a row that starts as zeros and gets no gradient. */
  readonly paddingIdx?: number;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

const embeddingRules: OptionRules<EmbeddingOptions> = {
  paddingIdx: option.count,
  generator: option.instanceOf(Generator),
};
const sizeRules: OptionRules<{ numEmbeddings: number; embeddingDim: number }> = {
  numEmbeddings: option.required(option.count),
  embeddingDim: option.required(option.count),
};

/** A table of vectors with standard normal initial values. Weight [numEmbeddings, embeddingDim]. */
export class Embedding extends Module {
  weight: Parameter;
  readonly paddingIdx: number | undefined;

  /** Throws ConfigError. */
  constructor(numEmbeddings: number, embeddingDim: number, options: EmbeddingOptions = {}) {
    super();
    checkOptions('Embedding', { numEmbeddings, embeddingDim }, sizeRules);
    checkOptions('Embedding', options, embeddingRules);
    const { paddingIdx, generator = defaultGenerator() } = options;
    const values = init.embedding(generator, numEmbeddings, embeddingDim, paddingIdx);
    this.weight = new Parameter(values, [numEmbeddings, embeddingDim]);
    this.paddingIdx = paddingIdx;
  }

  /** Shape: indices i32 N -> [N.., embeddingDim]. */
  forward(indices: Tensor): Tensor {
    return embedding(indices, this.weight, this.paddingIdx);
  }

  protected override describe(): string {
    const padding = this.paddingIdx === undefined ? '' : `, paddingIdx=${this.paddingIdx}`;
    return `${this.weight.shape.join(', ')}${padding}`;
  }
}
