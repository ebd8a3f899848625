import { ConfigError, DataError } from '@shardwise/core/extend';
import { type LibraryModel, libraryTokenizer } from './library.ts';
import type { BpeConfig, ModelConfig } from './file-types.ts';

/** Finds the tokens of words, and knows all tokens. */
export interface TokenModel {
  /** The ids of the tokens of some words. */
  encode(words: readonly string[]): readonly number[];
  /** The tokens of a word as they are written. */
  tokensOf(word: string): readonly string[];
  readonly idOf: ReadonlyMap<string, number>;
}

/** Makes the model of a file. Throws ConfigError for what the library of tokenizers does not do. */
export function createTokenModel(config: ModelConfig): TokenModel {
  const model = libraryModel(config);
  const { tokens_to_ids: idOf, unk_token_id: unknown } = model;
  return {
    idOf,
    tokensOf: (word) => model([word]),
    encode: (words) =>
      model([...words]).map((token) => {
        const id = idOf.get(token) ?? unknown;
        if (id !== undefined) return id;
        throw new DataError(
          {
            asked: `the token of '${token.slice(0, 40)}'`,
            found: 'a text that the vocabulary does not have, and no unknown token',
            todo: 'Use a tokenizer with an unknown token, or with byte fallback',
          },
          { token },
        );
      }),
  };
}

function libraryModel(config: ModelConfig): LibraryModel {
  if (config.type === 'BPE') requireKnown(config);
  if (config.type === 'Unigram') {
    if (config.byte_fallback) throw refused('Unigram with byte_fallback: true');
    if (config.unk_id >= config.vocab.length) {
      throw refused(`unk_id ${config.unk_id} in a vocabulary of ${config.vocab.length} tokens`);
    }
  }
  const model =
    config.type === 'BPE' ? { ...config, merges: config.merges.map(pairOf) } : { ...config };
  return libraryTokenizer({ model }).model;
}

function requireKnown({ continuing_subword_prefix: prefix, dropout }: BpeConfig): void {
  if (prefix !== null && prefix !== undefined && prefix !== '') {
    throw refused(`BPE with continuing_subword_prefix: '${prefix}'`);
  }
  if (dropout !== null && dropout !== undefined && dropout > 0) {
    throw refused(`BPE with dropout: ${dropout}, which draws tokens at random`);
  }
}

function pairOf(merge: string | readonly [string, string]): readonly [string, string] {
  if (typeof merge !== 'string') return merge;
  const [left, right, ...more] = merge.split(' ');
  if (left !== undefined && right !== undefined && more.length === 0) return [left, right];
  throw refused(`the merge '${merge.slice(0, 80)}', which is not two tokens`);
}

function refused(found: string): ConfigError {
  return new ConfigError({
    asked: 'the model of a tokenizer',
    found,
    todo: 'Use a tokenizer without it; it would be encoded in another way than by its own library',
  });
}
