import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { OffsetRMSNorm } from '../layers/norm.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';

/** Hugging Face's Gemma2Config. */
export interface Gemma2Config extends PretrainedConfig, RopeConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly numKeyValueHeads: number;
  readonly headDim: number;
  readonly hiddenActivation: ActivationName;
  readonly initializerRange: number;
  readonly rmsNormEps: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  readonly tieWordEmbeddings: boolean;
  readonly attentionBias: boolean;
  readonly attentionDropout: number;
  /** Scores are divided by the root of this number. */
  readonly queryPreAttnScalar: number;
  /** The number of keys that layers with a window see. */
  readonly slidingWindow: number | null;
  /** The kind of each layer. Null: layers 0, 2, … have a window. */
  readonly layerTypes: readonly rule.LayerType[] | null;
  /** The bound of logits. Null: none. */
  readonly finalLogitSoftcapping: number | null;
  /** The bound of attention scores. Null: none. */
  readonly attnLogitSoftcapping: number | null;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(256000),
  hiddenSize: rule.size.default(2304),
  intermediateSize: rule.size.default(9216),
  numHiddenLayers: rule.size.default(26),
  numAttentionHeads: rule.size.default(8),
  numKeyValueHeads: rule.size.default(4),
  headDim: rule.evenSize.default(256),
  hiddenActivation: z.enum(activationNames).default('gelu_pytorch_tanh'),
  maxPositionEmbeddings: rule.size.default(8192),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(0),
  tieWordEmbeddings: z.boolean().default(true),
  attentionBias: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  queryPreAttnScalar: rule.positive.default(256),
  slidingWindow: rule.size.nullable().default(4096),
  layerTypes: rule.layerTypes.default(null),
  finalLogitSoftcapping: rule.positive.nullable().default(30),
  attnLogitSoftcapping: rule.positive.nullable().default(50),
  ...ropeShape,
  rest: rule.rest.default({}),
});

/**
 * Gemma 2 (Gemma Team 2024) with a language-modelling head. Scores and logits are bounded, results have norms, and
 * every second layer sees a window of keys.
 */
export class Gemma2ForCausalLM extends CausalDecoder<Gemma2Config> {
  static readonly architecture: string = 'Gemma2ForCausalLM';
  static readonly format: ConfigFormat<Gemma2Config> = {
    modelType: 'gemma2',
    schema,
    // transformers reads hidden_activation, and writes both.
    neutralKeys: ['hidden_act', 'cache_implementation'],
  };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<Gemma2Config> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: Gemma2Config): CausalDecoderSettings {
  const { hiddenSize, layerTypes, slidingWindow } = config;
  const hasWindow = (layer: number): boolean =>
    layerTypes === null ? layer % 2 === 0 : layerTypes[layer] === 'sliding_attention';
  return {
    ...config,
    layers: config.numHiddenLayers,
    embeddingScale: Math.sqrt(hiddenSize),
    attention: {
      hiddenSize,
      heads: config.numAttentionHeads,
      keyHeads: config.numKeyValueHeads,
      headWidth: config.headDim,
      bias: config.attentionBias,
      outputBias: config.attentionBias,
      dropout: config.attentionDropout,
      scale: 1 / Math.sqrt(config.queryPreAttnScalar),
      ...(config.attnLogitSoftcapping === null ? {} : { softcap: config.attnLogitSoftcapping }),
    },
    windowOf: (layer) => (hasWindow(layer) ? (slidingWindow ?? undefined) : undefined),
    rope: ropeParametersOf(config),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenActivation,
      bias: false,
    },
    norm: (size) => new OffsetRMSNorm(size, config.rmsNormEps),
    normsResults: true,
    ...(config.finalLogitSoftcapping === null
      ? {}
      : { logitSoftcap: config.finalLogitSoftcapping }),
  };
}
