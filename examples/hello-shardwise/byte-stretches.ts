import type { TokenRows } from '@shardwise/data';
import { data, DataError } from 'shardwise';

/** Tokens of `byteTokenizer`. A byte has its value plus that of the first. */
const [BOS, EOS] = [0, 2];
const FIRST_BYTE = 4;

/** Stretches of a text that follow each other, each as <s>, its bytes and </s>. */
export class ByteStretches implements data.Dataset<TokenRows> {
  readonly length: number;
  readonly #text: Uint8Array;
  readonly #bytes: number;

  /** `maxLength` counts <s> and </s>, too. Throws DataError for a text that is shorter than a stretch. */
  constructor(text: Uint8Array, maxLength: number) {
    this.#text = text;
    this.#bytes = maxLength - 2;
    this.length = Math.floor(text.length / this.#bytes);
    if (this.length > 0) return;
    throw new DataError(
      {
        asked: `stretches of ${this.#bytes} bytes`,
        found: `a text of ${text.length} bytes`,
        todo: 'Use a longer text, or a smaller --max-length',
      },
      { bytes: text.length, maxLength },
    );
  }

  /** Shape: inputIds i32 [T]. */
  get(index: number): TokenRows {
    const start = index * this.#bytes;
    const bytes = this.#text.subarray(start, start + this.#bytes);
    const ids = [BOS, ...Array.from(bytes, (byte) => FIRST_BYTE + byte), EOS];
    return { inputIds: data.ndArray(Int32Array.from(ids)) };
  }
}
