import { RMSNorm } from '@shardwise/core/extend';
import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';
import { laterWindows, type WindowConfig, windowShape } from './sliding-windows.ts';

/** Hugging Face's Qwen3Config. */
export interface Qwen3Config extends PretrainedConfig, RopeConfig, WindowConfig {
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
}

const schema = z.strictObject({
  vocabSize: rule.size.default(151936),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(22016),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(32),
  headDim: rule.evenSize.nullable().default(128),
  hiddenAct: z.enum(activationNames).default('silu'),
  maxPositionEmbeddings: rule.size.default(32768),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  attentionBias: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  ...windowShape,
  ...ropeShape,
  rest: rule.rest.default({}),
});

/** Qwen 3 (Yang et al. 2025) with a language-modelling head. Each head of queries and keys has a norm. */
export class Qwen3ForCausalLM extends CausalDecoder<Qwen3Config> {
  static readonly architecture: string = 'Qwen3ForCausalLM';
  static readonly format: ConfigFormat<Qwen3Config> = { modelType: 'qwen3', schema };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<Qwen3Config> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: Qwen3Config): CausalDecoderSettings {
  const { hiddenSize, numAttentionHeads: heads } = config;
  const norm = (size: number): RMSNorm => new RMSNorm(size, { eps: config.rmsNormEps });
  return {
    ...config,
    layers: config.numHiddenLayers,
    attention: {
      hiddenSize,
      heads,
      keyHeads: config.numKeyValueHeads ?? heads,
      headWidth: config.headDim ?? hiddenSize / heads,
      bias: config.attentionBias,
      outputBias: config.attentionBias,
      headNorm: norm,
      dropout: config.attentionDropout,
    },
    windowOf: laterWindows(config),
    rope: ropeParametersOf(config),
    mlp: {
      hiddenSize,
      intermediateSize: config.intermediateSize,
      activation: config.hiddenAct,
      bias: false,
    },
    norm,
  };
}
