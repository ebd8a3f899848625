import {
  concat,
  type Conv2d,
  Dropout,
  LayerNorm,
  type Linear,
  ModuleList,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { z } from 'zod';
import { type EncoderOptions, encoderRules } from '../encoders/bert.ts';
import {
  classificationLoss,
  Classifier,
  labelCount,
  type LabelConfig,
  labelKeys,
} from '../encoders/classification.ts';
import { hasWholeHeads, layerKeys, wholeHeads } from '../encoders/encoder-config.ts';
import {
  type EncoderLayerConfig,
  Intermediate,
  Pooler,
  requirePooler,
  SelfAttention,
} from '../encoders/encoder-layers.ts';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { InitialValues } from '../layers/initial-values.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import { PretrainedModel, type PretrainedOptions } from '../model/pretrained-model.ts';
import { StateModule } from '../model/state-module.ts';
import { conv2d, type ImageCall, requireImages } from './image-model.ts';

// The vision transformer (Dosovitskiy et al. 2021). Letters: B batch, K colours, H x W pixels, T tokens, which are the
// patches behind one that classifies, C channels, I channels inside the perceptron, L labels.

/** A size of images or patches: one number for a square, or height and width. */
type ImageSize = number | readonly [height: number, width: number];

/** Hugging Face's ViTConfig. */
export interface ViTConfig extends PretrainedConfig, EncoderLayerConfig, LabelConfig {
  readonly imageSize: ImageSize;
  readonly patchSize: ImageSize;
  /** The number of colours. */
  readonly numChannels: number;
  /** Whether queries, keys and values have biases. */
  readonly qkvBias: boolean;
  /** The standard deviation of initial weights. */
  readonly initializerRange: number;
  /** The number of features of the pooler. Default: hiddenSize. */
  readonly poolerOutputSize: number | null;
  readonly poolerAct: ActivationName;
}

const imageSize = z.union([rule.size, z.tuple([rule.size, rule.size])]);

const format: ConfigFormat<ViTConfig> = {
  modelType: 'vit',
  schema: z
    .strictObject({
      ...layerKeys,
      ...labelKeys,
      hiddenDropoutProb: rule.probability.default(0),
      attentionProbsDropoutProb: rule.probability.default(0),
      imageSize: imageSize.default(224),
      patchSize: imageSize.default(16),
      numChannels: rule.size.default(3),
      qkvBias: z.boolean().default(true),
      poolerOutputSize: rule.size.nullable().default(null),
      poolerAct: z.enum(activationNames).default('tanh'),
      rest: rule.rest.default({}),
    })
    .refine(hasWholeHeads, wholeHeads),
  // It belongs to a class that predicts hidden patches.
  neutralKeys: ['encoder_stride'],
};

function heightAndWidth(size: ImageSize): readonly [number, number] {
  return typeof size === 'number' ? [size, size] : size;
}

class ViTPatchEmbeddings extends StateModule {
  readonly projection: Conv2d;

  constructor(config: ViTConfig, values: InitialValues) {
    super();
    const { numChannels, hiddenSize, initializerRange: std } = config;
    const patch = heightAndWidth(config.patchSize);
    const form = { kernel: patch, stride: patch, std };
    this.projection = conv2d(values, [numChannels, hiddenSize], form);
  }

  /** Shape: images [B, K, H, W] -> [B, T - 1, C]. */
  forward(images: Tensor): Tensor {
    return this.projection.forward(images).flatten(2).transpose(1, 2);
  }
}

class ViTEmbeddings extends StateModule {
  clsToken: Parameter;
  positionEmbeddings: Parameter;
  readonly patchEmbeddings: ViTPatchEmbeddings;
  readonly dropout: Dropout;

  constructor(config: ViTConfig, values: InitialValues) {
    super();
    const [height, width] = heightAndWidth(config.imageSize);
    const [patchHeight, patchWidth] = heightAndWidth(config.patchSize);
    const patches = Math.floor(height / patchHeight) * Math.floor(width / patchWidth);
    this.clsToken = values.weight([1, 1, config.hiddenSize]);
    this.positionEmbeddings = values.weight([1, patches + 1, config.hiddenSize]);
    this.patchEmbeddings = new ViTPatchEmbeddings(config, values);
    this.dropout = new Dropout(config.hiddenDropoutProb);
  }

  /** Shape: images [B, K, H, W] -> [B, T, C]. */
  forward(images: Tensor): Tensor {
    const patches = this.patchEmbeddings.forward(images);
    const [B = 0, , C = 0] = patches.shape;
    const tokens = concat([this.clsToken.expand([B, 1, C]), patches], 1);
    return this.dropout.forward(tokens.add(this.positionEmbeddings));
  }
}

/** A projection and dropout. The residual is added outside, as the norm comes first. */
class ViTOutput extends StateModule {
  readonly dense: Linear;
  readonly dropout: Dropout;

  constructor(inFeatures: number, config: ViTConfig, values: InitialValues) {
    super();
    this.dense = values.linear(inFeatures, config.hiddenSize);
    this.dropout = new Dropout(config.hiddenDropoutProb);
  }

  /** Shape: x [B, T, I] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    return this.dropout.forward(this.dense.forward(x));
  }
}

class ViTAttention extends StateModule {
  readonly attention: SelfAttention;
  readonly output: ViTOutput;

  constructor(config: ViTConfig, layer: number, values: InitialValues) {
    super();
    this.attention = new SelfAttention(config, layer, values, config.qkvBias);
    this.output = new ViTOutput(config.hiddenSize, config, values);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    return this.output.forward(this.attention.forward(x, {}));
  }
}

/** Attention and a perceptron, each with a residual and the norm before it. */
class ViTLayer extends StateModule {
  readonly layernormBefore: LayerNorm;
  readonly attention: ViTAttention;
  readonly layernormAfter: LayerNorm;
  readonly intermediate: Intermediate;
  readonly output: ViTOutput;

  constructor(config: ViTConfig, layer: number, values: InitialValues) {
    super();
    const { hiddenSize, intermediateSize, layerNormEps: eps } = config;
    this.layernormBefore = new LayerNorm(hiddenSize, { eps });
    this.attention = new ViTAttention(config, layer, values);
    this.layernormAfter = new LayerNorm(hiddenSize, { eps });
    this.intermediate = new Intermediate(config, values);
    this.output = new ViTOutput(intermediateSize, config, values);
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    const attended = x.add(this.attention.forward(this.layernormBefore.forward(x)));
    const inner = this.intermediate.forward(this.layernormAfter.forward(attended));
    return attended.add(this.output.forward(inner));
  }
}

class ViTEncoder extends StateModule {
  readonly layer: ModuleList<ViTLayer>;

  constructor(config: ViTConfig, values: InitialValues) {
    super();
    this.layer = new ModuleList(
      Array.from({ length: config.numHiddenLayers }, (_, i) => new ViTLayer(config, i, values)),
    );
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    let y = x;
    for (const layer of this.layer) y = layer.forward(y);
    return y;
  }
}

/** ViT without a head. */
export class ViTModel extends PretrainedModel<ViTConfig> {
  static readonly architecture = 'ViTModel';
  static readonly format: ConfigFormat<ViTConfig> = format;
  override readonly baseModelPrefix = 'vit';
  readonly embeddings: ViTEmbeddings;
  readonly encoder: ViTEncoder;
  readonly layernorm: LayerNorm;
  readonly pooler: Pooler | null;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<ViTConfig> = {}, options: EncoderOptions = {}) {
    super(ViTModel, config);
    const { hiddenSize, layerNormEps: eps, initializerRange } = this.config;
    const { poolerOutputSize, poolerAct: activation } = this.config;
    const values = new InitialValues(options, initializerRange, encoderRules);
    this.embeddings = new ViTEmbeddings(this.config, values);
    this.encoder = new ViTEncoder(this.config, values);
    this.layernorm = new LayerNorm(hiddenSize, { eps });
    const form = { outputSize: poolerOutputSize ?? hiddenSize, activation };
    this.pooler = (options.addPoolingLayer ?? true) ? new Pooler(this.config, values, form) : null;
  }

  /** Returns the vectors of all tokens. Shape: images [B, K, H, W] -> [B, T, C]. */
  forward(images: Tensor, call: Omit<ImageCall, 'labels'> = {}): Tensor {
    const { numChannels: channels, imageSize: size } = this.config;
    requireImages('ViTModel', images, call, { channels, size: heightAndWidth(size) });
    return this.layernorm.forward(this.encoder.forward(this.embeddings.forward(images)));
  }

  /** Makes one vector of each row. Throws ConfigError if there is no pooler. Shape: hidden [B, T, C] -> [B, C]. */
  pool(hidden: Tensor): Tensor {
    return requirePooler(this).forward(hidden);
  }
}

/** ViT that classifies images by its first token. */
export class ViTForImageClassification extends Classifier<ViTConfig> {
  static readonly architecture = 'ViTForImageClassification';
  static readonly format: ConfigFormat<ViTConfig> = format;
  override readonly baseModelPrefix = 'vit';
  readonly vit: ViTModel;
  readonly classifier: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<ViTConfig> = {}, options: PretrainedOptions = {}) {
    super(ViTForImageClassification, config);
    this.vit = new ViTModel(this.config, { ...options, addPoolingLayer: false });
    const values = new InitialValues(options, this.config.initializerRange);
    this.classifier = values.linear(this.config.hiddenSize, labelCount(this.config));
  }

  /**
   * Returns logits, or the mean loss that `classificationLoss` describes.
   * Shape: images [B, K, H, W], labels i32 [B] or floats [B, L] -> [B, L] or [].
   */
  forward(images: Tensor, { labels, ...call }: ImageCall = {}): Tensor {
    const logits = this.classifier.forward(this.vit.forward(images, call).select(1, 0));
    return labels === undefined ? logits : classificationLoss(this.config, logits, labels);
  }
}
