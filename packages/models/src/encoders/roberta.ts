import {
  Dropout,
  LayerNorm,
  type Linear,
  type ModelDivision,
  type Parameter,
  type Tensor,
} from '@shardwise/core/extend';
import { type CountedLabels, labelsOf, tokenLoss } from '../layers/counted-labels.ts';
import { InitialValues } from '../layers/initial-values.ts';
import type { LanguageModelHead } from '../layers/language-model-head.ts';
import type { ConfigFormat } from '../model/config-format.ts';
import { PretrainedModel, type PretrainedOptions } from '../model/pretrained-model.ts';
import { StateModule } from '../model/state-module.ts';
import { type EncoderOptions, encoderRules } from './bert.ts';
import { classificationLoss, Classifier, labelCount } from './classification.ts';
import type { EncoderCall } from './encoder-call.ts';
import { type EncoderConfig, robertaFormat } from './encoder-config.ts';
import { encoderDivision } from './encoder-division.ts';
import { EncoderEmbeddings, maskedHead, requireEncoderCall } from './encoder-embeddings.ts';
import { Encoder, Pooler, requirePooler } from './encoder-layers.ts';
import { type QuestionAnsweringCall, spanCall, spanHead, spanLoss } from './question-answering.ts';

// RoBERTa (Liu et al. 2019): a BERT whose places are counted from the padding token, and with other heads.
// Letters: B batch, T tokens, C channels, V vocabulary, L labels.

/** RoBERTa without a head. */
export class RobertaModel extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'RobertaModel';
  static readonly format: ConfigFormat<EncoderConfig> = robertaFormat;
  override readonly baseModelPrefix = 'roberta';
  readonly embeddings: EncoderEmbeddings;
  readonly encoder: Encoder;
  readonly pooler: Pooler | null;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: EncoderOptions = {}) {
    super(RobertaModel, config);
    const { initializerRange, padTokenId } = this.config;
    const values = new InitialValues(options, initializerRange, encoderRules);
    this.embeddings = new EncoderEmbeddings(this.config, values, padTokenId);
    this.encoder = new Encoder(this.config, values);
    this.pooler = (options.addPoolingLayer ?? true) ? new Pooler(this.config, values) : null;
  }

  /** Returns the vectors of all tokens. Shape: inputIds i32 [B, T] -> [B, T, C]. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    const { maxPositionEmbeddings, padTokenId } = this.config;
    requireEncoderCall('RobertaModel', inputIds, call, maxPositionEmbeddings - padTokenId - 1);
    const positions = call.positionIds ?? robertaPositions(inputIds, padTokenId);
    return this.encoder.forward(this.embeddings.forward(inputIds, positions, call), call);
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

/**
 * The places of tokens: those of padding are `padding`, and the others are counted from padding + 1. Padding is found by
 * its token, as in fairseq, and not by the attention mask. Shape: inputIds i32 [B, T] -> i32 [B, T].
 */
function robertaPositions(inputIds: Tensor, padding: number): Tensor {
  const isToken = inputIds.ne(padding).to('i32');
  return isToken.cumsum(1).mul(isToken).add(padding);
}

class RobertaLMHead extends StateModule {
  readonly dense: Linear;
  readonly layerNorm: LayerNorm;
  readonly decoder: LanguageModelHead;
  bias: Parameter;

  constructor(config: EncoderConfig, values: InitialValues, { embeddings }: RobertaModel) {
    super();
    const { hiddenSize, layerNormEps } = config;
    this.dense = values.linear(hiddenSize, hiddenSize);
    this.layerNorm = new LayerNorm(hiddenSize, { eps: layerNormEps });
    ({ decoder: this.decoder, bias: this.bias } = maskedHead(config, values, embeddings));
  }

  /** Returns logits, or the mean loss of labels. Shape: x [B, T, C], labels i32 [B, T] -> [B, T, V] or []. */
  forward(x: Tensor, { labels, labelCount }: CountedLabels = {}): Tensor {
    const hidden = this.layerNorm.forward(this.dense.forward(x).gelu());
    return this.decoder.forward(hidden, labels, labelCount);
  }
}

/** RoBERTa that predicts the tokens that its input hides. */
export class RobertaForMaskedLM extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'RobertaForMaskedLM';
  static readonly format: ConfigFormat<EncoderConfig> = robertaFormat;
  override readonly baseModelPrefix = 'roberta';
  readonly roberta: RobertaModel;
  readonly lmHead: RobertaLMHead;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(RobertaForMaskedLM, config);
    const values = new InitialValues(options, this.config.initializerRange);
    this.roberta = new RobertaModel(this.config, { ...options, addPoolingLayer: false });
    this.lmHead = new RobertaLMHead(this.config, values, this.roberta);
  }

  /** Returns logits, or the mean loss of the labels but -100. Shape: inputIds i32 [B, T] -> [B, T, V] or []. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    return this.lmHead.forward(this.roberta.forward(inputIds, call), labelsOf(call));
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads, padTokenId } = this.config;
    return encoderDivision({
      layers: 'roberta.encoder.layer',
      heads,
      positions: (inputIds, call) => call.positionIds ?? robertaPositions(inputIds, padTokenId),
    });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

class RobertaClassificationHead extends StateModule {
  readonly dense: Linear;
  readonly dropout: Dropout;
  readonly outProj: Linear;

  constructor(config: EncoderConfig, values: InitialValues) {
    super();
    const { hiddenSize, classifierDropout, hiddenDropoutProb } = config;
    this.dense = values.linear(hiddenSize, hiddenSize);
    this.dropout = new Dropout(classifierDropout ?? hiddenDropoutProb);
    this.outProj = values.linear(hiddenSize, labelCount(config));
  }

  /** Shape: x [B, T, C] -> [B, L]. */
  forward(x: Tensor): Tensor {
    const first = this.dropout.forward(x.select(1, 0));
    return this.outProj.forward(this.dropout.forward(this.dense.forward(first).tanh()));
  }
}

/** RoBERTa that classifies rows by their first token. */
export class RobertaForSequenceClassification extends Classifier<EncoderConfig> {
  static readonly architecture = 'RobertaForSequenceClassification';
  static readonly format: ConfigFormat<EncoderConfig> = robertaFormat;
  override readonly baseModelPrefix = 'roberta';
  readonly roberta: RobertaModel;
  readonly classifier: RobertaClassificationHead;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(RobertaForSequenceClassification, config);
    this.roberta = new RobertaModel(this.config, { ...options, addPoolingLayer: false });
    const values = new InitialValues(options, this.config.initializerRange);
    this.classifier = new RobertaClassificationHead(this.config, values);
  }

  /**
   * Returns logits, or the mean loss that `classificationLoss` describes.
   * Shape: inputIds i32 [B, T], labels i32 [B] or floats [B, L] -> [B, L] or [].
   */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    const logits = this.classifier.forward(this.roberta.forward(inputIds, call));
    return call.labels === undefined
      ? logits
      : classificationLoss(this.config, logits, call.labels);
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'roberta.encoder.layer', heads });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

/** RoBERTa that classifies each token. */
export class RobertaForTokenClassification extends Classifier<EncoderConfig> {
  static readonly architecture = 'RobertaForTokenClassification';
  static readonly format: ConfigFormat<EncoderConfig> = robertaFormat;
  override readonly baseModelPrefix = 'roberta';
  readonly roberta: RobertaModel;
  readonly dropout: Dropout;
  readonly classifier: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(RobertaForTokenClassification, config);
    const { hiddenSize, classifierDropout, hiddenDropoutProb, initializerRange } = this.config;
    this.roberta = new RobertaModel(this.config, { ...options, addPoolingLayer: false });
    this.dropout = new Dropout(classifierDropout ?? hiddenDropoutProb);
    const values = new InitialValues(options, initializerRange);
    this.classifier = values.linear(hiddenSize, labelCount(this.config));
  }

  /** Returns logits, or the mean loss of the labels but -100. Shape: inputIds i32 [B, T] -> [B, T, L] or []. */
  forward(inputIds: Tensor, call: EncoderCall = {}): Tensor {
    const hidden = this.dropout.forward(this.roberta.forward(inputIds, call));
    const logits = this.classifier.forward(hidden);
    return tokenLoss(logits, call) ?? logits;
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads, padTokenId } = this.config;
    return encoderDivision({
      layers: 'roberta.encoder.layer',
      heads,
      positions: (inputIds, call) => call.positionIds ?? robertaPositions(inputIds, padTokenId),
    });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}

/** RoBERTa that marks the answer of a question in a context. */
export class RobertaForQuestionAnswering extends PretrainedModel<EncoderConfig> {
  static readonly architecture = 'RobertaForQuestionAnswering';
  static readonly format: ConfigFormat<EncoderConfig> = robertaFormat;
  override readonly baseModelPrefix = 'roberta';
  readonly roberta: RobertaModel;
  readonly qaOutputs: Linear;

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<EncoderConfig> = {}, options: PretrainedOptions = {}) {
    super(RobertaForQuestionAnswering, config);
    this.roberta = new RobertaModel(this.config, { ...options, addPoolingLayer: false });
    this.qaOutputs = spanHead(this.config, options);
  }

  /**
   * Returns the logits that a token is the first and the last one of the answer, or the mean loss of both positions.
   * Shape: inputIds i32 [B, T], startPositions, endPositions i32 [B] -> [B, T, 2] or [].
   */
  forward(inputIds: Tensor, call: QuestionAnsweringCall = {}): Tensor {
    const { encoderCall, positions } = spanCall(call);
    const logits = this.qaOutputs.forward(this.roberta.forward(inputIds, encoderCall));
    return positions === null ? logits : spanLoss(logits, positions);
  }

  override division(): ModelDivision {
    const { numAttentionHeads: heads } = this.config;
    return encoderDivision({ layers: 'roberta.encoder.layer', heads });
  }

  protected override attentionFeatures(): number {
    return this.config.numHiddenLayers * this.config.hiddenSize;
  }
}
