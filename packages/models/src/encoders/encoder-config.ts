import { z } from 'zod';
import { activationNames } from '../layers/activations.ts';
import * as rule from '../layers/schema.ts';
import type { ConfigFormat, PretrainedConfig } from '../model/config-format.ts';
import { type LabelConfig, labelKeys } from './classification.ts';
import type { EncoderLayerConfig } from './encoder-layers.ts';
import type { SchemaKeys } from './schema-keys.ts';

/** Hugging Face's BertConfig and RobertaConfig. */
export interface EncoderConfig extends PretrainedConfig, EncoderLayerConfig, LabelConfig {
  readonly vocabSize: number;
  readonly maxPositionEmbeddings: number;
  readonly typeVocabSize: number;
  /** The token whose vector does not train. Places of RoBERTa are counted from it. */
  readonly padTokenId: number;
  /** The standard deviation of initial weights. */
  readonly initializerRange: number;
  /** The probability with which a classifier drops its inputs. Default: hiddenDropoutProb. */
  readonly classifierDropout: number | null;
  /** Whether the head of a masked language model has the weight of the word embeddings. Others have no such head. */
  readonly tieWordEmbeddings: boolean;
  /** Which vectors say the place of a token. */
  readonly positionEmbeddingType: 'absolute';
}

/** What the configurations of encoders and of ViT have in common with the same defaults. */
type CommonConfig = Omit<EncoderLayerConfig, 'hiddenDropoutProb' | 'attentionProbsDropoutProb'> &
  Pick<EncoderConfig, 'initializerRange'>;

/** The keys of `CommonConfig` for a schema. */
export const layerKeys: SchemaKeys<CommonConfig> = {
  hiddenSize: rule.size.default(768),
  numHiddenLayers: rule.size.default(12),
  numAttentionHeads: rule.size.default(12),
  intermediateSize: rule.size.default(3072),
  hiddenAct: z.enum(activationNames).default('gelu'),
  layerNormEps: rule.nonNegative.default(1e-12),
  initializerRange: rule.nonNegative.default(0.02),
};

/** Whether the heads divide the channels. */
export function hasWholeHeads(config: {
  readonly hiddenSize: number;
  readonly numAttentionHeads: number;
}): boolean {
  return config.hiddenSize % config.numAttentionHeads === 0;
}

/** The issue of a config whose heads do not divide its channels. */
export const wholeHeads: { path: string[]; error: string } = {
  path: ['numAttentionHeads'],
  error: 'hidden_size is no multiple of it',
};

/** Keys of old files that describe a pooler of which there is one form only. */
const neutralKeys = [
  'directionality',
  'pooler_fc_size',
  'pooler_num_attention_heads',
  'pooler_num_fc_layers',
  'pooler_size_per_head',
  'pooler_type',
];

function encoderFormat(
  modelType: string,
  defaults: Pick<EncoderConfig, 'padTokenId' | 'vocabSize'>,
): ConfigFormat<EncoderConfig> {
  const schema = z
    .strictObject({
      ...layerKeys,
      ...labelKeys,
      hiddenDropoutProb: rule.probability.default(0.1),
      attentionProbsDropoutProb: rule.probability.default(0.1),
      vocabSize: rule.size.default(defaults.vocabSize),
      maxPositionEmbeddings: rule.size.default(512),
      typeVocabSize: rule.size.default(2),
      padTokenId: z.int().min(0).default(defaults.padTokenId),
      classifierDropout: rule.probability.nullable().default(null),
      tieWordEmbeddings: z.boolean().default(true),
      positionEmbeddingType: z.literal('absolute').default('absolute'),
      rest: rule.rest.default({}),
    })
    .refine(hasWholeHeads, wholeHeads);
  return { modelType, schema, neutralKeys };
}

export const bertFormat: ConfigFormat<EncoderConfig> = encoderFormat('bert', {
  padTokenId: 0,
  vocabSize: 30522,
});
export const robertaFormat: ConfigFormat<EncoderConfig> = encoderFormat('roberta', {
  padTokenId: 1,
  vocabSize: 50265,
});
