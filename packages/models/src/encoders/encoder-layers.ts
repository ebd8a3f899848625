import {
  ConfigError,
  Dropout,
  LayerNorm,
  type Linear,
  ModuleList,
  type Tensor,
} from '@shardwise/core/extend';
import type { EncoderCall } from './encoder-call.ts';
import { activate, type ActivationName } from '../layers/activations.ts';
import { attention, intoHeads, joinHeads } from '../layers/attention.ts';
import type { InitialValues } from '../layers/initial-values.ts';
import { EncoderPart } from './encoder-part.ts';

// The layers of BERT and RoBERTa, of which ViT has some, too. Letters: B batch, T tokens, C channels, H heads, D = C / H,
// I channels inside the perceptron.

/** What a configuration says of the layers. */
export interface EncoderLayerConfig {
  readonly hiddenSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly intermediateSize: number;
  readonly hiddenAct: ActivationName;
  readonly hiddenDropoutProb: number;
  readonly attentionProbsDropoutProb: number;
  readonly layerNormEps: number;
}

/** Attention of each token to all tokens that the call shows. */
export class SelfAttention extends EncoderPart {
  readonly query: Linear;
  readonly key: Linear;
  readonly value: Linear;
  readonly #layer: number;
  readonly #headWidth: number;
  readonly #dropout: number;

  constructor(config: EncoderLayerConfig, layer: number, values: InitialValues, bias = true) {
    super();
    const { hiddenSize, numAttentionHeads, attentionProbsDropoutProb } = config;
    this.query = values.linear(hiddenSize, hiddenSize, { bias });
    this.key = values.linear(hiddenSize, hiddenSize, { bias });
    this.value = values.linear(hiddenSize, hiddenSize, { bias });
    this.#layer = layer;
    this.#headWidth = hiddenSize / numAttentionHeads;
    this.#dropout = attentionProbsDropoutProb;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: EncoderCall): Tensor {
    const attended = attention(
      intoHeads(this.query.forward(x), this.#headWidth),
      intoHeads(this.key.forward(x), this.#headWidth),
      intoHeads(this.value.forward(x), this.#headWidth),
      call,
      { layer: this.#layer, causal: false, dropout: this.training ? this.#dropout : 0 },
    );
    return joinHeads(attended);
  }
}

/** A projection and dropout, then the residual and the norm. */
class ProjectionWithResidual extends EncoderPart {
  readonly dense: Linear;
  readonly layerNorm: LayerNorm;
  readonly dropout: Dropout;

  constructor(inFeatures: number, config: EncoderLayerConfig, values: InitialValues) {
    super();
    this.dense = values.linear(inFeatures, config.hiddenSize);
    this.layerNorm = new LayerNorm(config.hiddenSize, { eps: config.layerNormEps });
    this.dropout = new Dropout(config.hiddenDropoutProb);
  }

  /** Shape: x [B, T, I], residual [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, residual: Tensor): Tensor {
    return this.layerNorm.forward(this.dropout.forward(this.dense.forward(x)).add(residual));
  }
}

/** The first half of the perceptron. */
export class Intermediate extends EncoderPart {
  readonly dense: Linear;
  readonly #activation: ActivationName;

  constructor(config: EncoderLayerConfig, values: InitialValues) {
    super();
    this.dense = values.linear(config.hiddenSize, config.intermediateSize);
    this.#activation = config.hiddenAct;
  }

  /** Shape: x [B, T, C] -> [B, T, I]. */
  forward(x: Tensor): Tensor {
    return activate(this.dense.forward(x), this.#activation);
  }
}

class Attention extends EncoderPart {
  readonly self: SelfAttention;
  readonly output: ProjectionWithResidual;

  constructor(config: EncoderLayerConfig, layer: number, values: InitialValues) {
    super();
    this.self = new SelfAttention(config, layer, values);
    this.output = new ProjectionWithResidual(config.hiddenSize, config, values);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: EncoderCall): Tensor {
    return this.output.forward(this.self.forward(x, call), x);
  }
}

/** Attention and a perceptron, each with a residual and the norm behind it (Devlin et al. 2019). */
class EncoderLayer extends EncoderPart {
  readonly attention: Attention;
  readonly intermediate: Intermediate;
  readonly output: ProjectionWithResidual;

  constructor(config: EncoderLayerConfig, layer: number, values: InitialValues) {
    super();
    this.attention = new Attention(config, layer, values);
    this.intermediate = new Intermediate(config, values);
    this.output = new ProjectionWithResidual(config.intermediateSize, config, values);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: EncoderCall): Tensor {
    const attended = this.attention.forward(x, call);
    return this.output.forward(this.intermediate.forward(attended), attended);
  }
}

/** All layers, one after the other. */
export class Encoder extends EncoderPart {
  readonly layer: ModuleList<EncoderLayer>;

  constructor(config: EncoderLayerConfig, values: InitialValues) {
    super();
    this.layer = new ModuleList(
      Array.from({ length: config.numHiddenLayers }, (_, i) => new EncoderLayer(config, i, values)),
    );
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, call: EncoderCall): Tensor {
    let y = x;
    for (const layer of this.layer) y = layer.forward(y, call);
    return y;
  }
}

/** The form of a pooler, if it is another one than BERT's. */
export interface PoolerOptions {
  readonly outputSize?: number;
  readonly activation?: ActivationName;
}

/** One vector of each row, from its first token. */
export class Pooler extends EncoderPart {
  readonly dense: Linear;
  readonly #activation: ActivationName;

  constructor(
    { hiddenSize }: Pick<EncoderLayerConfig, 'hiddenSize'>,
    values: InitialValues,
    { outputSize = hiddenSize, activation = 'tanh' }: PoolerOptions = {},
  ) {
    super();
    this.dense = values.linear(hiddenSize, outputSize);
    this.#activation = activation;
  }

  /** Shape: x [B, T, C] -> [B, C]. */
  forward(x: Tensor): Tensor {
    return activate(this.dense.forward(x.select(1, 0)), this.#activation);
  }
}

/** Throws ConfigError if a model was made without a pooler. */
export function requirePooler({
  pooler,
  architecture,
}: {
  readonly pooler: Pooler | null;
  readonly architecture: string;
}): Pooler {
  if (pooler !== null) return pooler;
  throw new ConfigError({
    asked: `one vector of each row of ${architecture}`,
    found: 'no pooler, as addPoolingLayer is false',
    todo: 'Make the model with a pooler, or take the mean of the tokens: sentenceEmbeddings()',
  });
}
