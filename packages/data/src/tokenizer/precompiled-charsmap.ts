import { ConfigError } from '@shardwise/core/extend';

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** A cluster of more bytes is replaced character by character. */
const LONGEST_CLUSTER = 6;

/**
 * The map from characters to texts that SentencePiece writes into its files: the length of a trie in bytes, a trie as an
 * array of units of 32 bits (Yata's double array, darts-clone), and texts that end with a zero byte. A leaf of the trie
 * says where the text of a key begins.
 */
export class PrecompiledCharsmap {
  readonly #units: Uint32Array;
  readonly #texts: Uint8Array;

  private constructor(units: Uint32Array, texts: Uint8Array) {
    this.#units = units;
    this.#texts = texts;
  }

  /** Throws ConfigError for a text that is not the base64 of such a map. */
  static parse(base64: string): PrecompiledCharsmap {
    let bytes: Uint8Array;
    try {
      bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    } catch (cause) {
      throw damaged('a text that is not base64', cause);
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const trieBytes = bytes.length < 4 ? 0 : view.getUint32(0, true);
    if (trieBytes === 0 || trieBytes % 4 !== 0 || trieBytes + 4 > bytes.length) {
      throw damaged(`a trie of ${trieBytes} bytes in a map of ${bytes.length} bytes`);
    }
    const units = Uint32Array.from({ length: trieBytes / 4 }, (_, index) =>
      view.getUint32(4 + 4 * index, true),
    );
    return new PrecompiledCharsmap(units, bytes.subarray(4 + trieBytes));
  }

  normalize(text: string): string {
    let result = '';
    this.forEach(text, (part, replaced) => {
      result += replaced ?? part;
    });
    return result;
  }

  /** Calls a function with each part of a text and what replaces it. Parts that stay are characters. */
  forEach(text: string, take: (part: string, replaced: string | undefined) => void): void {
    for (const { segment } of graphemes.segment(text)) {
      const whole = encoder.encode(segment);
      const replaced = whole.length < LONGEST_CLUSTER ? this.#replacement(whole) : undefined;
      if (replaced === undefined) {
        for (const letter of segment) take(letter, this.#replacement(encoder.encode(letter)));
      } else take(segment, replaced);
    }
  }

  /** The text for the shortest key with which the bytes begin. Undefined if there is none. */
  #replacement(key: Uint8Array): string | undefined {
    const units = this.#units;
    let node = offsetOf(units[0] ?? 0);
    for (const byte of key) {
      if (byte === 0) return undefined;
      node ^= byte;
      const unit = units[node];
      if (unit === undefined || (unit & 0x800000ff) !== byte) return undefined;
      node ^= offsetOf(unit);
      // Bit 8 says that a key ends here: its value is in the unit at the offset.
      if ((unit & 0x100) !== 0) return this.#textAt((units[node] ?? 0) & 0x7fffffff);
    }
    return undefined;
  }

  #textAt(start: number): string {
    const end = this.#texts.indexOf(0, start);
    if (start >= this.#texts.length || end < 0) {
      throw damaged(`a text at byte ${start} of ${this.#texts.length}`);
    }
    return decoder.decode(this.#texts.subarray(start, end));
  }
}

/** The distance from a unit to its children, which bit 9 says in units or in 256 of them. */
function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

function damaged(found: string, cause?: unknown): ConfigError {
  return new ConfigError(
    {
      asked: 'a tokenizer with a precompiled map of characters',
      found,
      todo: 'Give the tokenizer.json as it was written; it seems to be damaged',
    },
    {},
    { cause },
  );
}
