import {
  BatchNorm2d,
  ConfigError,
  type Conv2d,
  Linear,
  MaxPool2d,
  Module,
  type ModelDivision,
  ModuleList,
  type Tensor,
} from '@shardwise/core/extend';
import { z } from 'zod';
import {
  classificationLoss,
  Classifier,
  labelCount,
  type LabelConfig,
  labelKeys,
} from '../encoders/classification.ts';
import { activate, type ActivationName, activationNames } from '../layers/activations.ts';
import { InitialValues } from '../layers/initial-values.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import { PretrainedModel, type PretrainedOptions } from '../model/pretrained-model.ts';
import { StateModule } from '../model/state-module.ts';
import { conv2d, type ImageCall, requireImages } from './image-model.ts';
import { nameOfTorchvision } from './torchvision-names.ts';

// Residual networks (He et al. 2016), with the stride of a bottleneck in its 3 x 3 convolution (torchvision's version 1.5).
// Letters: B batch, K colours, H x W pixels, C channels, L labels.

/** Hugging Face's ResNetConfig. Default: ResNet-50. */
export interface ResNetConfig extends PretrainedConfig, LabelConfig {
  /** The number of colours. */
  readonly numChannels: number;
  /** The number of channels behind the first convolution. */
  readonly embeddingSize: number;
  /** The number of channels of each stage. */
  readonly hiddenSizes: readonly number[];
  /** The number of layers of each stage. */
  readonly depths: readonly number[];
  /** Two convolutions a layer (ResNet-18 and 34), or three (50 and above). */
  readonly layerType: 'basic' | 'bottleneck';
  readonly hiddenAct: ActivationName;
  /** Whether the first stage halves the image. */
  readonly downsampleInFirstStage: boolean;
  /** Whether the first convolution of a bottleneck halves the image, and not its second one. */
  readonly downsampleInBottleneck: boolean;
}

const format: ConfigFormat<ResNetConfig> = {
  modelType: 'resnet',
  schema: z
    .strictObject({
      ...labelKeys,
      numChannels: rule.size.default(3),
      embeddingSize: rule.size.default(64),
      hiddenSizes: z.array(rule.size).min(1).default([256, 512, 1024, 2048]),
      depths: z.array(rule.size).min(1).default([3, 4, 6, 3]),
      layerType: z.enum(['basic', 'bottleneck']).default('bottleneck'),
      hiddenAct: z.enum(activationNames).default('relu'),
      downsampleInFirstStage: z.boolean().default(false),
      downsampleInBottleneck: z.boolean().default(false),
      rest: rule.rest.default({}),
    })
    .refine(({ hiddenSizes, depths }) => hiddenSizes.length === depths.length, {
      path: ['depths'],
      error: 'it has not one number for each of hidden_sizes',
    }),
  // They say which stages a backbone returns, which is a class of its own.
  neutralKeys: ['out_features', 'out_indices', 'stage_names'],
};

interface ConvLayerForm {
  readonly inChannels: number;
  readonly outChannels: number;
  /** The height and the width of the kernel, which is padded by half of it. Default: 3. */
  readonly kernel?: number;
  readonly stride?: number;
  /** Default: none. */
  readonly activation?: ActivationName | undefined;
}

/** A convolution, its batch norm and perhaps an activation. */
class ResNetConvLayer extends StateModule {
  readonly convolution: Conv2d;
  readonly normalization: BatchNorm2d;
  readonly #activation: ActivationName | undefined;

  constructor(values: InitialValues, form: ConvLayerForm) {
    super();
    const { inChannels, outChannels, kernel = 3, stride = 1, activation } = form;
    this.convolution = conv2d(values, [inChannels, outChannels], {
      kernel: [kernel, kernel],
      stride,
      padding: Math.floor(kernel / 2),
      bias: false,
      // Kaiming's normal values, which keep the variance in the backward pass.
      std: Math.sqrt(2 / (outChannels * kernel ** 2)),
    });
    this.normalization = new BatchNorm2d(outChannels);
    this.#activation = activation;
  }

  /** Shape: x [B, C, H, W] -> [B, C', H', W']. */
  forward(x: Tensor): Tensor {
    const y = this.normalization.forward(this.convolution.forward(x));
    return this.#activation === undefined ? y : activate(y, this.#activation);
  }
}

/** The first convolution, and a pooling. Together they make the image a quarter as high and wide. */
class ResNetEmbeddings extends StateModule {
  readonly embedder: ResNetConvLayer;
  readonly pooler: MaxPool2d;

  constructor(config: ResNetConfig, values: InitialValues) {
    super();
    this.embedder = new ResNetConvLayer(values, {
      inChannels: config.numChannels,
      outChannels: config.embeddingSize,
      kernel: 7,
      stride: 2,
      activation: config.hiddenAct,
    });
    this.pooler = new MaxPool2d(3, { stride: 2, padding: 1 });
  }

  /** Shape: images [B, K, H, W] -> [B, C, H / 4, W / 4]. */
  forward(images: Tensor): Tensor {
    return this.pooler.forward(this.embedder.forward(images));
  }
}

/** Convolutions, to whose result the input is added, itself or by a convolution to the same shape. */
class ResNetLayer extends StateModule {
  readonly shortcut: ResNetConvLayer | null;
  readonly layer: ModuleList<ResNetConvLayer>;
  readonly #activation: ActivationName;

  constructor(
    config: ResNetConfig,
    values: InitialValues,
    form: { readonly inChannels: number; readonly outChannels: number; readonly stride: number },
  ) {
    super();
    const { inChannels, outChannels, stride } = form;
    const keepsShape = inChannels === outChannels && stride === 1;
    this.shortcut = keepsShape ? null : new ResNetConvLayer(values, { ...form, kernel: 1 });
    this.layer = new ModuleList(
      convolutions(config, form).map((each) => new ResNetConvLayer(values, each)),
    );
    this.#activation = config.hiddenAct;
  }

  /** Shape: x [B, C, H, W] -> [B, C', H', W']. */
  forward(x: Tensor): Tensor {
    let y = x;
    for (const layer of this.layer) y = layer.forward(y);
    return activate(y.add(this.shortcut?.forward(x) ?? x), this.#activation);
  }
}

/** The convolutions of a layer. Those inside it always have a rectifier, whatever `hidden_act` says, as in Python. */
function convolutions(
  { layerType, downsampleInBottleneck }: ResNetConfig,
  {
    inChannels,
    outChannels,
    stride,
  }: Required<Pick<ConvLayerForm, 'inChannels' | 'outChannels' | 'stride'>>,
): readonly ConvLayerForm[] {
  const activation = 'relu';
  if (layerType === 'basic') {
    return [
      { inChannels, outChannels, stride, activation },
      { inChannels: outChannels, outChannels },
    ];
  }
  const inner = Math.floor(outChannels / 4);
  const [first, second] = downsampleInBottleneck ? [stride, 1] : [1, stride];
  return [
    { inChannels, outChannels: inner, kernel: 1, stride: first, activation },
    { inChannels: inner, outChannels: inner, stride: second, activation },
    { inChannels: inner, outChannels, kernel: 1 },
  ];
}

class ResNetStage extends StateModule {
  readonly layers: ModuleList<ResNetLayer>;

  constructor(config: ResNetConfig, values: InitialValues, stage: number) {
    super();
    const { hiddenSizes, depths, embeddingSize, downsampleInFirstStage } = config;
    const outChannels = hiddenSizes[stage] ?? 0;
    const inChannels = stage === 0 ? embeddingSize : (hiddenSizes[stage - 1] ?? 0);
    const stride = stage > 0 || downsampleInFirstStage ? 2 : 1;
    const forms = Array.from({ length: depths[stage] ?? 0 }, (_, layer) =>
      layer === 0
        ? { inChannels, outChannels, stride }
        : { inChannels: outChannels, outChannels, stride: 1 },
    );
    this.layers = new ModuleList(forms.map((form) => new ResNetLayer(config, values, form)));
  }

  /** Shape: x [B, C, H, W] -> [B, C', H', W']. */
  forward(x: Tensor): Tensor {
    let y = x;
    for (const layer of this.layers) y = layer.forward(y);
    return y;
  }
}

class ResNetEncoder extends StateModule {
  readonly stages: ModuleList<ResNetStage>;

  constructor(config: ResNetConfig, values: InitialValues) {
    super();
    this.stages = new ModuleList(
      config.depths.map((_, stage) => new ResNetStage(config, values, stage)),
    );
  }

  /** Shape: x [B, C, H, W] -> [B, C', H', W']. */
  forward(x: Tensor): Tensor {
    let y = x;
    for (const stage of this.stages) y = stage.forward(y);
    return y;
  }
}

/** A residual network without a head. */
export class ResNetModel extends PretrainedModel<ResNetConfig> {
  static readonly architecture = 'ResNetModel';
  static readonly format: ConfigFormat<ResNetConfig> = format;
  override readonly baseModelPrefix = 'resnet';
  readonly embedder: ResNetEmbeddings;
  readonly encoder: ResNetEncoder;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<ResNetConfig> = {}, options: PretrainedOptions = {}) {
    super(ResNetModel, config);
    const values = new InitialValues(options, 0);
    this.embedder = new ResNetEmbeddings(this.config, values);
    this.encoder = new ResNetEncoder(this.config, values);
  }

  /** Returns the features of the last stage. Shape: images [B, K, H, W] -> [B, C, H', W']. */
  forward(images: Tensor, call: Omit<ImageCall, 'labels'> = {}): Tensor {
    requireImages('ResNetModel', images, call, { channels: this.config.numChannels });
    return this.encoder.forward(this.embedder.forward(images));
  }

  override nameOfStored(name: string): string {
    return nameOfTorchvision(name);
  }

  override division(): ModelDivision {
    const layers = 'encoder.stages.*.layers.*';
    return { stages: [layers], units: [layers] };
  }

  override flopsPerToken(): number {
    throw withoutTokens(this.architecture);
  }
}

function withoutTokens(model: string): ConfigError {
  return new ConfigError({
    asked: `the FLOPs of a token of ${model}`,
    found: 'a model of images, whose FLOPs follow from their size',
    todo: 'Have them counted: nn.summary(model, images)',
  });
}

/** A linear classifier. Hugging Face counts a layer without parameters before it, which flattens its input. */
class ResNetClassifier extends Module {
  readonly 1: Linear;

  constructor(channels: number, labels: number, { generator }: PretrainedOptions) {
    super();
    this[1] = new Linear(channels, labels, generator === undefined ? {} : { generator });
  }
}

/** A residual network that classifies images by the means of its last features. */
export class ResNetForImageClassification extends Classifier<ResNetConfig> {
  static readonly architecture = 'ResNetForImageClassification';
  static readonly format: ConfigFormat<ResNetConfig> = format;
  override readonly baseModelPrefix = 'resnet';
  readonly resnet: ResNetModel;
  readonly classifier: ResNetClassifier;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<ResNetConfig> = {}, options: PretrainedOptions = {}) {
    super(ResNetForImageClassification, config);
    this.resnet = new ResNetModel(this.config, options);
    const channels = this.config.hiddenSizes.at(-1) ?? 0;
    this.classifier = new ResNetClassifier(channels, labelCount(this.config), options);
  }

  /**
   * Returns logits, or the mean loss that `classificationLoss` describes.
   * Shape: images [B, K, H, W], labels i32 [B] or floats [B, L] -> [B, L] or [].
   */
  forward(images: Tensor, { labels, ...call }: ImageCall = {}): Tensor {
    const means = this.resnet.forward(images, call).mean([2, 3]);
    const logits = this.classifier[1].forward(means);
    return labels === undefined ? logits : classificationLoss(this.config, logits, labels);
  }

  override nameOfStored(name: string): string {
    return nameOfTorchvision(name);
  }

  override division(): ModelDivision {
    const layers = 'resnet.encoder.stages.*.layers.*';
    return { stages: [layers], units: [layers] };
  }

  override flopsPerToken(): number {
    throw withoutTokens(this.architecture);
  }
}
