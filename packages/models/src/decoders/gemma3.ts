import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { OffsetRMSNorm } from '../layers/norm.ts';
import { type RawRopeParameters, ropeParametersOf, ropeSchema } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';

/** Hugging Face's Gemma3TextConfig. */
export interface Gemma3Config extends PretrainedConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  readonly numKeyValueHeads: number;
  readonly headDim: number;
  readonly hiddenActivation: ActivationName;
  readonly maxPositionEmbeddings: number;
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
  /** Every layer of this number sees all keys, if layerTypes is null. */
  readonly slidingWindowPattern: number;
  /** The kind of each layer. Null: by slidingWindowPattern. */
  readonly layerTypes: readonly rule.LayerType[] | null;
  /** The bound of logits. Null: none. */
  readonly finalLogitSoftcapping: number | null;
  /** The bound of attention scores. Null: none. */
  readonly attnLogitSoftcapping: number | null;
  /** The base of the frequencies of layers that see all keys, before transformers 5. */
  readonly ropeTheta: number | null;
  /** The base of the frequencies of layers with a window, before transformers 5. */
  readonly ropeLocalBaseFreq: number | null;
  /** The scaling of layers that see all keys, before transformers 5. */
  readonly ropeScaling: RawRopeParameters | null;
  /** The rope parameters of both kinds of layers, since transformers 5. */
  readonly ropeParameters: {
    readonly fullAttention?: RawRopeParameters | null | undefined;
    readonly slidingAttention?: RawRopeParameters | null | undefined;
  } | null;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(262208),
  hiddenSize: rule.size.default(2304),
  intermediateSize: rule.size.default(9216),
  numHiddenLayers: rule.size.default(26),
  numAttentionHeads: rule.size.default(8),
  numKeyValueHeads: rule.size.default(4),
  headDim: rule.evenSize.default(256),
  hiddenActivation: z.enum(activationNames).default('gelu_pytorch_tanh'),
  maxPositionEmbeddings: rule.size.default(131072),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(0),
  tieWordEmbeddings: z.boolean().default(true),
  attentionBias: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  queryPreAttnScalar: rule.positive.default(256),
  slidingWindow: rule.size.nullable().default(4096),
  slidingWindowPattern: rule.size.default(6),
  layerTypes: rule.layerTypes.default(null),
  finalLogitSoftcapping: rule.positive.nullable().default(null),
  attnLogitSoftcapping: rule.positive.nullable().default(null),
  ropeTheta: rule.positive.nullable().default(null),
  ropeLocalBaseFreq: rule.positive.nullable().default(null),
  ropeScaling: ropeSchema.nullable().default(null),
  ropeParameters: z
    .strictObject({ fullAttention: ropeSchema.nullish(), slidingAttention: ropeSchema.nullish() })
    .nullable()
    .default(null),
  rest: rule.rest.default({}),
});

/**
 * The text model of Gemma 3 (Gemma Team 2025) with a language-modelling head. Heads of queries and keys have norms, and
 * most layers see a window of keys, with rotary embeddings of their own.
 */
export class Gemma3ForCausalLM extends CausalDecoder<Gemma3Config> {
  static readonly architecture: string = 'Gemma3ForCausalLM';
  static readonly format: ConfigFormat<Gemma3Config> = {
    modelType: 'gemma3_text',
    schema,
    neutralKeys: ['cache_implementation'],
  };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<Gemma3Config> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: Gemma3Config): CausalDecoderSettings {
  const { hiddenSize, layerTypes, slidingWindow, ropeParameters, ropeScaling } = config;
  const { maxPositionEmbeddings } = config;
  const norm = (size: number): OffsetRMSNorm => new OffsetRMSNorm(size, config.rmsNormEps);
  const hasWindow = (layer: number): boolean =>
    layerTypes === null
      ? (layer + 1) % config.slidingWindowPattern !== 0
      : layerTypes[layer] === 'sliding_attention';
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
      headNorm: norm,
      dropout: config.attentionDropout,
      scale: 1 / Math.sqrt(config.queryPreAttnScalar),
      ...(config.attnLogitSoftcapping === null ? {} : { softcap: config.attnLogitSoftcapping }),
    },
    windowOf: (layer) => (hasWindow(layer) ? (slidingWindow ?? undefined) : undefined),
    rope: ropeParametersOf(
      {
        ropeTheta: config.ropeTheta,
        ropeScaling,
        ropeParameters: ropeParameters?.fullAttention ?? null,
        maxPositionEmbeddings,
      },
      1e6,
    ),
    windowRope: ropeParametersOf({
      ropeTheta: config.ropeLocalBaseFreq,
      ropeScaling: null,
      ropeParameters: ropeParameters?.slidingAttention ?? null,
      maxPositionEmbeddings,
    }),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenActivation,
      bias: false,
    },
    norm,
    normsResults: true,
    ...(config.finalLogitSoftcapping === null
      ? {}
      : { logitSoftcap: config.finalLogitSoftcapping }),
  };
}
