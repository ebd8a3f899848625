import { RMSNorm } from '@shardwise/core/extend';
import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';

/** Hugging Face's MistralConfig. */
export interface MistralConfig extends PretrainedConfig, RopeConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  /** The number of heads of keys and values. Null: numAttentionHeads. */
  readonly numKeyValueHeads: number | null;
  /** The width of a head. Null: hiddenSize / numAttentionHeads. */
  readonly headDim: number | null;
  readonly hiddenAct: ActivationName;
  readonly initializerRange: number;
  readonly rmsNormEps: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  readonly tieWordEmbeddings: boolean;
  /** The number of keys that a query sees. Null: all. */
  readonly slidingWindow: number | null;
  readonly attentionDropout: number;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(32000),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(14336),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(8),
  headDim: rule.evenSize.nullable().default(null),
  hiddenAct: z.enum(activationNames).default('silu'),
  maxPositionEmbeddings: rule.size.default(131072),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  slidingWindow: rule.size.nullable().default(4096),
  attentionDropout: rule.probability.default(0),
  ...ropeShape,
  rest: rule.rest.default({}),
});

/** Mistral (Jiang et al. 2023) with a language-modelling head. Each query sees a window of keys. */
export class MistralForCausalLM extends CausalDecoder<MistralConfig> {
  static readonly architecture: string = 'MistralForCausalLM';
  static readonly format: ConfigFormat<MistralConfig> = { modelType: 'mistral', schema };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<MistralConfig> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: MistralConfig): CausalDecoderSettings {
  const { hiddenSize, numAttentionHeads: heads } = config;
  return {
    ...config,
    layers: config.numHiddenLayers,
    attention: {
      hiddenSize,
      heads,
      keyHeads: config.numKeyValueHeads ?? heads,
      headWidth: config.headDim ?? hiddenSize / heads,
      bias: false,
      outputBias: false,
      dropout: config.attentionDropout,
    },
    windowOf: () => config.slidingWindow ?? undefined,
    rope: ropeParametersOf(config),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenAct,
      bias: false,
    },
    norm: (size) => new RMSNorm(size, { eps: config.rmsNormEps }),
  };
}
