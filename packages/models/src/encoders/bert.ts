import {
  Dropout,
  LayerNorm,
  type Linear,
  type ModelDivision,
  option,
  type OptionRules,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { activate, type ActivationName } from '../layers/activations.ts';
import { InitialValues } from '../layers/initial-values.ts';
import type { LanguageModelHead } from '../layers/language-model-head.ts';
import { type CountedLabels, labelsOf, tokenLoss } from '../layers/counted-labels.ts';
import { positionsOf } from '../layers/positions.ts';
import type { ConfigFormat } from '../model/config-format.ts';
import {
  PretrainedModel,
  type PretrainedOptions,
  pretrainedRules,
} from '../model/pretrained-model.ts';
import { classificationLoss, Classifier, labelCount } from './classification.ts';
import type { EncoderCall } from './encoder-call.ts';
import { bertFormat, type EncoderConfig } from './encoder-config.ts';
import { encoderDivision } from './encoder-division.ts';
import { EncoderEmbeddings, maskedHead, requireEncoderCall } from './encoder-embeddings.ts';
import { Encoder, Pooler, requirePooler } from './encoder-layers.ts';
import { EncoderPart } from './encoder-part.ts';
import { type QuestionAnsweringCall, spanCall, spanHead, spanLoss } from './question-answering.ts';

// BERT (Devlin et al. 2019), and with it MiniLM (Wang et al. 2020), which is a BERT of another size.
// Letters: B batch, T tokens, C channels, V vocabulary, L labels.

/** Options of an encoder without a head. */
export interface EncoderOptions extends PretrainedOptions {
  /** Whether there is a pooler. Default: true. */
  readonly addPoolingLayer?: boolean;
}

export const encoderRules: OptionRules<EncoderOptions> = {
  ...pretrainedRules,
  addPoolingLayer: option.flag,
};

/** BERT without a head. */
export class BertModel extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'BertModel';
  static readonly format: ConfigFormat<EncoderConfig> = bertFormat;
  override readonly baseModelPrefix = 'bert';
  readonly embeddings: EncoderEmbeddings;
  readonly encoder: Encoder;
  readonly pooler: Pooler | null;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: EncoderOptions = {}) {
    super(BertModel, config);
    const values = new InitialValues(options, this.config.initializerRange, encoderRules);
    this.embeddings = new EncoderEmbeddings(this.config, values);
    this.encoder = new Encoder(this.config, values);
    this.pooler = (options.addPoolingLayer ?? true) ? new Pooler(this.config, values) : null;
  }

  /** Returns the vectors of all tokens. Shape: inputIds i32 [B, T] -> [B, T, C]. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    requireEncoderCall('BertModel', inputIds, call, this.config.maxPositionEmbeddings);
    const x = this.embeddings.forward(inputIds, positionsOf(inputIds, call), call);
    return this.encoder.forward(x, call);
  }

  /** Makes one vector of each row. Throws ConfigError if there is no pooler. Shape: hidden [B, T, C] -> [B, C]. */
  pool(hidden: Tensor): Tensor {
    return requirePooler(this).forward(hidden);
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'encoder.layer', heads });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

class PredictionTransform extends EncoderPart {
  readonly dense: Linear;
  readonly layerNorm: LayerNorm;
  readonly #activation: ActivationName;

  constructor({ hiddenSize, hiddenAct, layerNormEps }: EncoderConfig, values: InitialValues) {
    super();
    this.dense = values.linear(hiddenSize, hiddenSize);
    this.layerNorm = new LayerNorm(hiddenSize, { eps: layerNormEps });
    this.#activation = hiddenAct;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor): Tensor {
    return this.layerNorm.forward(activate(this.dense.forward(x), this.#activation));
  }
}

class LMPredictionHead extends EncoderPart {
  bias: Parameter;
  readonly transform: PredictionTransform;
  readonly decoder: LanguageModelHead;

  constructor(config: EncoderConfig, values: InitialValues, { embeddings }: BertModel) {
    super();
    this.transform = new PredictionTransform(config, values);
    ({ decoder: this.decoder, bias: this.bias } = maskedHead(config, values, embeddings));
  }

  /** Returns logits, or the mean loss of labels. Shape: x [B, T, C], labels i32 [B, T] -> [B, T, V] or []. */
  forward(x: Tensor, { labels, labelCount }: CountedLabels = {}): Tensor {
    return this.decoder.forward(this.transform.forward(x), labels, labelCount);
  }
}

class OnlyMLMHead extends EncoderPart {
  readonly predictions: LMPredictionHead;

  constructor(config: EncoderConfig, values: InitialValues, bert: BertModel) {
    super();
    this.predictions = new LMPredictionHead(config, values, bert);
  }

  /** Shape: x [B, T, C], labels i32 [B, T] -> [B, T, V] or []. */
  forward(x: Tensor, labels: CountedLabels = {}): Tensor {
    return this.predictions.forward(x, labels);
  }
}

/** BERT that predicts the tokens that its input hides. */
export class BertForMaskedLM extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'BertForMaskedLM';
  static readonly format: ConfigFormat<EncoderConfig> = bertFormat;
  override readonly baseModelPrefix = 'bert';
  readonly bert: BertModel;
  readonly cls: OnlyMLMHead;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(BertForMaskedLM, config);
    const values = new InitialValues(options, this.config.initializerRange);
    this.bert = new BertModel(this.config, { ...options, addPoolingLayer: false });
    this.cls = new OnlyMLMHead(this.config, values, this.bert);
  }

  /** Returns logits, or the mean loss of the labels but -100. Shape: inputIds i32 [B, T] -> [B, T, V] or []. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    return this.cls.forward(this.bert.forward(inputIds, call), labelsOf(call));
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'bert.encoder.layer', heads, positions: positionsOf });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

/** BERT that classifies rows by their first token. */
export class BertForSequenceClassification extends Classifier<EncoderConfig> {
  static readonly architecture = 'BertForSequenceClassification';
  static readonly format: ConfigFormat<EncoderConfig> = bertFormat;
  override readonly baseModelPrefix = 'bert';
  readonly bert: BertModel;
  readonly dropout: Dropout;
  readonly classifier: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(BertForSequenceClassification, config);
    const { hiddenSize, classifierDropout, hiddenDropoutProb, initializerRange } = this.config;
    this.bert = new BertModel(this.config, options);
    this.dropout = new Dropout(classifierDropout ?? hiddenDropoutProb);
    const values = new InitialValues(options, initializerRange);
    this.classifier = values.linear(hiddenSize, labelCount(this.config));
  }

  /**
   * Returns logits, or the mean loss that `classificationLoss` describes.
   * Shape: inputIds i32 [B, T], labels i32 [B] or floats [B, L] -> [B, L] or [].
   */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    const pooled = this.bert.pool(this.bert.forward(inputIds, call));
    const logits = this.classifier.forward(this.dropout.forward(pooled));
    return call.labels === undefined
      ? logits
      : classificationLoss(this.config, logits, call.labels);
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'bert.encoder.layer', heads });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

/** BERT that classifies each token. */
export class BertForTokenClassification extends Classifier<EncoderConfig> {
  static readonly architecture = 'BertForTokenClassification';
  static readonly format: ConfigFormat<EncoderConfig> = bertFormat;
  override readonly baseModelPrefix = 'bert';
  readonly bert: BertModel;
  readonly dropout: Dropout;
  readonly classifier: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(BertForTokenClassification, config);
    const { hiddenSize, classifierDropout, hiddenDropoutProb, initializerRange } = this.config;
    this.bert = new BertModel(this.config, { ...options, addPoolingLayer: false });
    this.dropout = new Dropout(classifierDropout ?? hiddenDropoutProb);
    const values = new InitialValues(options, initializerRange);
    this.classifier = values.linear(hiddenSize, labelCount(this.config));
  }

  /** Returns logits, or the mean loss of the labels but -100. Shape: inputIds i32 [B, T] -> [B, T, L] or []. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    const hidden = this.dropout.forward(this.bert.forward(inputIds, call));
    const logits = this.classifier.forward(hidden);
    return tokenLoss(logits, call) ?? logits;
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'bert.encoder.layer', heads, positions: positionsOf });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

/** BERT that marks the answer of a question in a context. */
export class BertForQuestionAnswering extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'BertForQuestionAnswering';
  static readonly format: ConfigFormat<EncoderConfig> = bertFormat;
  override readonly baseModelPrefix = 'bert';
  readonly bert: BertModel;
  readonly qaOutputs: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(BertForQuestionAnswering, config);
    this.bert = new BertModel(this.config, { ...options, addPoolingLayer: false });
    this.qaOutputs = spanHead(this.config, options);
  }

  /**
   * Returns the logits that a token is the first and the last one of the answer, or the mean loss of both positions.
   * Shape: inputIds i32 [B, T], startPositions, endPositions i32 [B] -> [B, T, 2] or [].
   */
  forward(inputIds: Tensor, call: QuestionAnsweringCall = {}): Tensor {
    const { encoderCall, positions } = spanCall(call);
    const logits = this.qaOutputs.forward(this.bert.forward(inputIds, encoderCall));
    return positions === null ? logits : spanLoss(logits, positions);
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'bert.encoder.layer', heads });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}
