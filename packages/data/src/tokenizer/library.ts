import { Tokenizer as LibraryTokenizer } from '@huggingface/tokenizers';

/** What is used of the models of Hugging Face's library for JavaScript. */
export interface LibraryModel {
  /** The tokens of words. */
  (words: string[]): readonly string[];
  readonly tokens_to_ids: ReadonlyMap<string, number>;
  readonly unk_token_id?: number | undefined;
}

/** What is used of its tokenizers. */
interface LibraryParts {
  readonly model: LibraryModel;
  readonly pre_tokenizer: { readonly pattern?: RegExp | null } | null;
}

const nothing = {
  model: { type: 'WordPiece', vocab: { '?': 0 }, unk_token: '?', continuing_subword_prefix: '' },
  normalizer: null,
  pre_tokenizer: null,
  post_processor: null,
  decoder: null,
  added_tokens: [],
};

/**
 * A tokenizer of the library of which one part is used. The types of the library do not resolve for Node's rules of
 * modules, so that its parts have the types that are written here.
 */
export function libraryTokenizer(part: {
  readonly model?: object;
  readonly pre_tokenizer?: object;
}): LibraryParts {
  const parts: LibraryParts = new LibraryTokenizer({ ...nothing, ...part }, {});
  return parts;
}
