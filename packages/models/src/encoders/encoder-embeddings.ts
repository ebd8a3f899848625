import {
  checkOptions,
  ConfigError,
  Dropout,
  type Embedding,
  LayerNorm,
  option,
  type OptionRules,
  type Parameter,
  Tensor,
} from '@shardwise/core/extend';
import type { InitialValues } from '../layers/initial-values.ts';
import type { LanguageModelHead } from '../layers/language-model-head.ts';
import { requireTokens } from '../layers/positions.ts';
import type { EncoderCall } from './encoder-call.ts';
import type { EncoderConfig } from './encoder-config.ts';
import { EncoderPart } from './encoder-part.ts';

// Letters: B batch, T tokens, C channels.

/** The sum of the vectors of a token, of its place and of its segment, normalised. */
export class EncoderEmbeddings extends EncoderPart {
  readonly wordEmbeddings: Embedding;
  readonly positionEmbeddings: Embedding;
  readonly tokenTypeEmbeddings: Embedding;
  readonly layerNorm: LayerNorm;
  readonly dropout: Dropout;

  /** `positionPadding` is the place of padding, whose vector does not train. */
  constructor(config: EncoderConfig, values: InitialValues, positionPadding?: number) {
    super();
    const { vocabSize, hiddenSize, maxPositionEmbeddings, typeVocabSize, padTokenId } = config;
    this.wordEmbeddings = values.embedding(vocabSize, hiddenSize, padTokenId);
    this.positionEmbeddings = values.embedding(maxPositionEmbeddings, hiddenSize, positionPadding);
    this.tokenTypeEmbeddings = values.embedding(typeVocabSize, hiddenSize);
    this.layerNorm = new LayerNorm(hiddenSize, { eps: config.layerNormEps });
    this.dropout = new Dropout(config.hiddenDropoutProb);
  }

  /** Shape: inputIds i32 [B, T], positions i32 [B, T] or [1, T] -> [B, T, C]. */
  forward(inputIds: Tensor, positions: Tensor, { tokenTypeIds }: EncoderCall): Tensor {
    const types = tokenTypeIds ?? inputIds.mul(0);
    const sum = this.wordEmbeddings
      .forward(inputIds)
      .add(this.tokenTypeEmbeddings.forward(types))
      .add(this.positionEmbeddings.forward(positions));
    return this.dropout.forward(this.layerNorm.forward(sum));
  }
}

/** The product of a masked language model's head, and the bias that files have beside it. */
export interface MaskedHead {
  readonly decoder: LanguageModelHead;
  readonly bias: Parameter;
}

/**
 * Makes the head of a masked language model. Tied, it has the weight of the embeddings, and its bias is the one beside it.
 * Otherwise it has both of its own, and as in Python the bias beside it is in files, but nothing uses or trains it.
 */
export function maskedHead(
  { hiddenSize, vocabSize, tieWordEmbeddings }: EncoderConfig,
  values: InitialValues,
  { wordEmbeddings }: EncoderEmbeddings,
): MaskedHead {
  const bias = values.constant([vocabSize], 0);
  const tied = tieWordEmbeddings ? wordEmbeddings : null;
  const decoder = values.head(hiddenSize, vocabSize, { tied });
  decoder.bias = tieWordEmbeddings ? bias : values.constant([vocabSize], 0);
  bias.requiresGrad_(tieWordEmbeddings);
  return { decoder, bias };
}

const tensor = option.instanceOf(Tensor);
const callRules: OptionRules<EncoderCall> = {
  attentionMask: tensor,
  positionIds: tensor,
  labels: tensor,
  documents: tensor,
  tokenTypeIds: tensor,
  cache: option.object('a cache'),
  rowPart: option.object('what tokens know of their rows'),
};

/**
 * Throws ConfigError for rows of more tokens than there are places, for a call with a cache, and for unknown names, and as
 * requireTokens does.
 */
export function requireEncoderCall(
  model: string,
  inputIds: Tensor,
  call: EncoderCall,
  places: number,
): void {
  if (call.cache !== undefined) {
    throw new ConfigError({
      asked: `${model} with a cache, as generate() and streamTokens() use it`,
      found: 'an encoder, in which each token sees the later ones, too',
      todo: 'Give these functions a decoder, such as a Llama, or leave the cache out',
    });
  }
  checkOptions(`${model}.forward`, call, callRules);
  requireTokens(`${model}.forward`, inputIds);
  const [, length = 0] = inputIds.shape;
  if (length <= places) return;
  throw new ConfigError(
    {
      asked: `${model} of rows of ${length} tokens`,
      found: `vectors for ${places} places (max_position_embeddings)`,
      todo: 'Truncate the rows when they are tokenized',
    },
    { length, places },
  );
}
