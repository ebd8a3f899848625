import { RMSNorm } from '@shardwise/core/extend';
import { z } from 'zod';
import { type ActivationName, activationNames } from '../layers/activations.ts';
import { type RopeConfig, ropeParametersOf, ropeShape } from '../layers/rope-parameters.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import type { PretrainedOptions } from '../model/pretrained-model.ts';
import { CausalDecoder, type CausalDecoderSettings } from './causal-decoder.ts';
import { laterWindows, type WindowConfig, windowShape } from './sliding-windows.ts';

/** Hugging Face's Qwen2Config. */
export interface Qwen2Config extends PretrainedConfig, RopeConfig, WindowConfig {
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly numHiddenLayers: number;
  readonly numAttentionHeads: number;
  /** The number of heads of keys and values. Null: numAttentionHeads. */
  readonly numKeyValueHeads: number | null;
  readonly hiddenAct: ActivationName;
  readonly initializerRange: number;
  readonly rmsNormEps: number;
  /** The token whose embedding gets no gradient. Null: none. */
  readonly padTokenId: number | null;
  readonly tieWordEmbeddings: boolean;
  readonly attentionDropout: number;
}

const schema = z.strictObject({
  vocabSize: rule.size.default(151936),
  hiddenSize: rule.size.default(4096),
  intermediateSize: rule.size.default(22016),
  numHiddenLayers: rule.size.default(32),
  numAttentionHeads: rule.size.default(32),
  numKeyValueHeads: rule.size.nullable().default(32),
  hiddenAct: z.enum(activationNames).default('silu'),
  maxPositionEmbeddings: rule.size.default(32768),
  initializerRange: rule.nonNegative.default(0.02),
  rmsNormEps: rule.nonNegative.default(1e-6),
  padTokenId: rule.tokenId.default(null),
  tieWordEmbeddings: z.boolean().default(false),
  attentionDropout: rule.probability.default(0),
  ...windowShape,
  ...ropeShape,
  rest: rule.rest.default({}),
});

/** Qwen 2 and 2.5 (Yang et al. 2024) with a language-modelling head. Queries, keys and values have biases. */
export class Qwen2ForCausalLM extends CausalDecoder<Qwen2Config> {
  static readonly architecture: string = 'Qwen2ForCausalLM';
  static readonly format: ConfigFormat<Qwen2Config> = { modelType: 'qwen2', schema };

  /** Throws ConfigError for a config that this class cannot compute. */
  constructor(config: Partial<Qwen2Config> = {}, options: PretrainedOptions = {}) {
    super(new.target, config, options, settingsOf);
  }
}

function settingsOf(config: Qwen2Config): CausalDecoderSettings {
  const { hiddenSize, numAttentionHeads: heads } = config;
  return {
    ...config,
    layers: config.numHiddenLayers,
    attention: {
      hiddenSize,
      heads,
      keyHeads: config.numKeyValueHeads ?? heads,
      headWidth: hiddenSize / heads,
      bias: true,
      outputBias: false,
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
    norm: (size) => new RMSNorm(size, { eps: config.rmsNormEps }),
  };
}
