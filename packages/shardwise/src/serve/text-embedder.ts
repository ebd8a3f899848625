import { DataError, fromData, noGrad, type Tensor } from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import { type BertModel, type RobertaModel, sentenceEmbeddings } from '@shardwise/models';
import type { TextEmbedder } from '@shardwise/serve/node';
import type { Pooling } from './read-pooling.ts';

/** The texts of a forward pass, while there are so many. The others are computed one by one. */
const ROWS = 8;
/** Rows are padded to a multiple of it, because each length costs a plan. */
const LENGTH_STEP = 16;

/** Makes vectors of texts with an encoder. */
export class EncoderEmbedder {
  readonly #model: BertModel | RobertaModel;
  readonly #tokenizer: Tokenizer;
  readonly #pooling: Pooling;
  /** The last texts that are being computed: one request at a time, so that its memory has a bound. */
  #last: Promise<unknown> = Promise.resolve();

  /** Switches the model to evaluation. */
  constructor(model: BertModel | RobertaModel, tokenizer: Tokenizer, pooling: Pooling) {
    model.eval();
    this.#model = model;
    this.#tokenizer = tokenizer;
    this.#pooling = pooling;
  }

  /** The most tokens of a text. */
  get maxTokens(): number {
    const { maxPositionEmbeddings, padTokenId } = this.#model.config;
    // RoBERTa counts places from its padding token.
    const isRoberta = this.#model.modelType === 'roberta';
    const places = isRoberta ? maxPositionEmbeddings - padTokenId - 1 : maxPositionEmbeddings;
    return Math.min(places, this.#pooling.maxTokens ?? places);
  }

  /** Rejects with DataError for a text that is too long, and for tokens that the model does not have. */
  readonly embed: TextEmbedder = async (inputs) => {
    const rows = inputs.map((input) => this.#tokensOf(input));
    const vectors = this.#last.then(() => this.#vectorsOf(rows));
    this.#last = vectors.catch(() => undefined);
    const tokens = rows.reduce((sum, row) => sum + row.length, 0);
    return { vectors: await vectors, tokens };
  };

  #tokensOf(input: string | readonly number[]): readonly number[] {
    const tokens = typeof input === 'string' ? this.#tokenizer.encode(input).inputIds : input;
    const { vocabSize } = this.#model.config;
    const unknown = tokens.find((token) => token >= vocabSize);
    const found =
      unknown === undefined
        ? `${tokens.length} tokens, and not 1 to ${this.maxTokens}`
        : `the token ${unknown}, and a vocabulary of ${vocabSize}`;
    const fits = tokens.length > 0 && tokens.length <= this.maxTokens;
    if (fits && unknown === undefined) return tokens;
    throw new DataError(
      { asked: 'an embedding', found, todo: 'Send another text' },
      { tokens: tokens.length },
    );
  }

  async #vectorsOf(rows: readonly (readonly number[])[]): Promise<Float32Array[]> {
    const vectors: Float32Array[] = [];
    while (vectors.length < rows.length) {
      const isFull = rows.length - vectors.length >= ROWS;
      const some = rows.slice(vectors.length, vectors.length + (isFull ? ROWS : 1));
      const values = Float32Array.from(await noGrad(() => this.#forward(some)).data(), Number);
      const width = values.length / some.length;
      for (const row of some.keys()) vectors.push(values.slice(row * width, (row + 1) * width));
    }
    return vectors;
  }

  /** Shape: -> [B, C]. */
  #forward(rows: readonly (readonly number[])[]): Tensor {
    const longest = Math.max(...rows.map(({ length }) => length));
    const length = Math.min(Math.ceil(longest / LENGTH_STEP) * LENGTH_STEP, this.maxTokens);
    const shape = [rows.length, length];
    // RoBERTa finds padding by its token.
    const ids = new Int32Array(rows.length * length).fill(this.#model.config.padTokenId);
    const mask = new Int32Array(rows.length * length);
    for (const [row, tokens] of rows.entries()) {
      ids.set(tokens, row * length);
      mask.fill(1, row * length, row * length + tokens.length);
    }
    const attentionMask = fromData(mask, shape, 'i32');
    const hidden = this.#model.forward(fromData(ids, shape, 'i32'), { attentionMask }).to('f32');
    const { kind, normalize } = this.#pooling;
    if (kind === 'mean') return sentenceEmbeddings(hidden, { attentionMask, normalize });
    // The mean of a row with one token is that token.
    return sentenceEmbeddings(hidden.slice(1, 0, 1), { normalize });
  }
}
