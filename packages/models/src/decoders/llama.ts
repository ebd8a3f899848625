import { RMSNorm } from '@shardwise/core/extend';
import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';

/** Hugging Face's LlamaConfig. */
export interface LlamaConfig extends PretrainedConfig, RopeConfig {
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
  readonly attentionBias: boolean;
  readonly attentionDropout: number;
  readonly mlpBias: boolean;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(32000),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(11008),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(null),
  headDim: rule.evenSize.nullable().default(null),
  hiddenAct: z.enum(activationNames).default('silu'),
  maxPositionEmbeddings: rule.size.default(2048),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  attentionBias: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  mlpBias: z.boolean().default(false),
  ...ropeShape,
  rest: rule.rest.default({}),
});

/** Llama (Touvron et al. 2023) with a language-modelling head. */
export class LlamaForCausalLM extends CausalDecoder<LlamaConfig> {
  static readonly architecture: string = 'LlamaForCausalLM';
  static readonly format: ConfigFormat<LlamaConfig> = { modelType: 'llama', schema };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<LlamaConfig> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: LlamaConfig): CausalDecoderSettings {
  const { hiddenSize, numAttentionHeads: heads, attentionBias: bias } = config;
  return {
    ...config,
    layers: config.numHiddenLayers,
    attention: {
      hiddenSize,
      heads,
      keyHeads: config.numKeyValueHeads ?? heads,
      headWidth: config.headDim ?? hiddenSize / heads,
      bias,
      outputBias: bias,
      dropout: config.attentionDropout,
    },
    rope: ropeParametersOf(config),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenAct,
      bias: config.mlpBias,
    },
    norm: (size) => new RMSNorm(size, { eps: config.rmsNormEps }),
  };
}
