import type { Offsets } from './aligned-text.ts';
import type { BpeConfig, ModelConfig } from './file-types.ts';

/** Where the tokens of a word are in it. Undefined if they do not make up the word. */
type TokenRanges = (word: string, tokens: readonly string[]) => readonly Offsets[] | undefined;

/** Makes the function for the tokens of a model. */
export function createTokenRanges(config: ModelConfig): TokenRanges {
  if (config.type === 'BPE') return bpeRanges(config);
  const isWordPiece = config.type === 'WordPiece';
  const prefix = isWordPiece ? config.continuing_subword_prefix : '';
  return (word, tokens) => {
    // A word that WordPiece does not know is one token.
    if (isWordPiece && tokens.length === 1 && tokens[0] === config.unk_token) {
      return [[0, word.length]];
    }
    let end = 0;
    const ranges = tokens.map((token, index): Offsets => {
      const start = end;
      end += token.length - (index > 0 ? prefix.length : 0);
      return [start, end];
    });
    return end === word.length ? ranges : undefined;
  };
}

const byteToken = /^<0x[\dA-F]{2}>$/;

function bpeRanges(config: BpeConfig): TokenRanges {
  const { unk_token: unknown, end_of_word_suffix: suffix } = config;
  const known = new Set(Object.keys(config.vocab));
  return (word, tokens) => {
    let at = 0;
    /** The bytes of the character at `at` that have had their tokens. */
    let bytes = 0;
    const isKnown = (letter: string): boolean =>
      known.has(at + letter.length === word.length ? letter + (suffix ?? '') : letter);
    const ranges: Offsets[] = [];
    for (const token of tokens) {
      const start = at;
      const letter = letterAt(word, at);
      if (letter === '' || (config.byte_fallback && byteToken.test(token) && !isKnown(letter))) {
        bytes += 1;
        ranges.push([start, start + letter.length]);
        if (bytes < new TextEncoder().encode(letter).length) continue;
        at += letter.length;
        bytes = 0;
      } else if (token === unknown && !isKnown(letter)) {
        do at += letterAt(word, at).length;
        while (config.fuse_unk && at < word.length && !isKnown(letterAt(word, at)));
        ranges.push([start, at]);
      } else {
        const isLast = suffix !== null && suffix !== undefined && token.endsWith(suffix);
        const text = isLast ? token.slice(0, token.length - suffix.length) : token;
        if (!word.startsWith(text, at)) return undefined;
        at += text.length;
        ranges.push([start, at]);
      }
    }
    return at === word.length ? ranges : undefined;
  };
}

function letterAt(text: string, at: number): string {
  const code = text.codePointAt(at);
  return code === undefined ? '' : String.fromCodePoint(code);
}
