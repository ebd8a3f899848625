import type { Tokenizer, TokenRows } from '@shardwise/data';
import { data } from 'shardwise';
import type { LabelledText } from './texts.ts';

/** Texts as tokens, each with its label. They are tokenized once. */
export class TokenDataset implements data.Dataset<TokenRows> {
  readonly #rows: readonly TokenRows[];

  /** Longer texts are cut to `maxLength` tokens. */
  constructor(texts: readonly LabelledText[], tokenizer: Tokenizer, maxLength: number) {
    this.#rows = texts.map(({ text, label }) => ({
      inputIds: data.ndArray(Int32Array.from(tokenizer.encode(text, { maxLength }).inputIds)),
      labels: data.ndArray(Int32Array.of(label), []),
    }));
  }

  get length(): number {
    return this.#rows.length;
  }

  /** Shape: inputIds i32 [t], labels i32 []. */
  get(index: number): TokenRows {
    const row = this.#rows[index];
    if (row === undefined) throw new RangeError(`item ${index} of ${this.length}`);
    return row;
  }

  /** The same texts without labels, for a masked language model. */
  withoutLabels(): data.Dataset<TokenRows> {
    return {
      length: this.length,
      get: (index) => {
        const { inputIds } = this.get(index);
        return inputIds === undefined ? {} : { inputIds };
      },
    };
  }
}
