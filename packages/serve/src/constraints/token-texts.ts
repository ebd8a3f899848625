import type { Tokenizer } from '@shardwise/data';

/** Tokens by the characters of their texts. */
export interface TokenTree {
  /** The tokens whose texts end here. */
  readonly tokens: number[];
  readonly next: Map<number, TokenTree>;
}

/**
 * The texts of tokens behind others. Special tokens, and tokens that are a part of a character, have none, so that a
 * constrained text does not have them.
 */
export class TokenTexts {
  readonly tree: TokenTree = { tokens: [], next: new Map() };
  readonly #texts: (string | null)[];

  constructor(tokenizer: Tokenizer, vocabSize: number) {
    // Some decoders write the first token of a text in another way.
    const before = tokenizer.encode('a', { addSpecialTokens: false }).inputIds;
    const { length } = tokenizer.decode(before);
    this.#texts = Array.from({ length: vocabSize }, (_, token) => {
      if (tokenizer.specialIds.has(token) || tokenizer.tokenOf(token) === undefined) return null;
      const text = tokenizer.decode([...before, token]).slice(length);
      return text === '' || text.includes('\ufffd') ? null : text;
    });
    for (const [token, text] of this.#texts.entries()) {
      if (text !== null) this.#add(token, text);
    }
  }

  /** Null if a constrained text does not have the token. */
  textOf(token: number): string | null {
    return this.#texts[token] ?? null;
  }

  #add(token: number, text: string): void {
    let place = this.tree;
    for (const each of text) {
      const codePoint = each.codePointAt(0) ?? 0;
      const next = place.next.get(codePoint) ?? { tokens: [], next: new Map() };
      place.next.set(codePoint, next);
      place = next;
    }
    place.tokens.push(token);
  }
}
