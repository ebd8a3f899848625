import { Tokenizer } from '@shardwise/data';
import { Tokenizer as RustTokenizer } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { hardStrings } from './hard-strings.ts';
import { differentOffsets } from './rust-offsets.ts';
import { gpt2, textOf, trained } from './tokenizer-files.ts';

const strings = hardStrings(3000, 1);
const files = [...trained.map((name) => [name, textOf(name)] as const), ['gpt-2', gpt2()] as const];

describe.each(files)('the places of tokens by the tokenizer %s', (_name, file) => {
  it('are those of the Rust library for 3,000 hard strings', async () => {
    const rust = RustTokenizer.fromString(file);
    const tokenizer = Tokenizer.fromJson(JSON.parse(file));
    expect(await differentOffsets(tokenizer, rust, strings)).toEqual([]);
  });
});

/** A trained tokenizer with other parts. */
function changed(name: (typeof trained)[number], parts: Readonly<Record<string, unknown>>): string {
  const file: Record<string, unknown> = JSON.parse(textOf(name));
  return JSON.stringify({ ...file, ...parts });
}

const byteLevel = {
  type: 'ByteLevel',
  add_prefix_space: true,
  trim_offsets: true,
  use_regex: true,
};
const roberta = { type: 'RobertaProcessing', sep: ['a', 0], cls: ['b', 1], trim_offsets: true };
const normalizers = [
  ...['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents'].map((type) => ({ type })),
  { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'StripAccents' }, { type: 'NFC' }] },
  { type: 'Replace', pattern: { Regex: '\\s+' }, content: '<blank>' },
];
const splits = [
  { type: 'Split', pattern: { Regex: '[aeiou]' }, invert: false },
  { type: 'Split', pattern: { Regex: '[aeiou]+' }, invert: true },
  { type: 'Punctuation' },
].flatMap((config) =>
  ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].map((behavior) => ({
    ...config,
    behavior,
  })),
);
const metaspaces = ['first', 'always', 'never'].map((prepend_scheme) => ({
  type: 'Metaspace',
  replacement: '▁',
  prepend_scheme,
  split: true,
}));

const variants = [
  ...normalizers.map((normalizer) => ['byte-level', { normalizer }] as const),
  // Bytes show each mark that is removed, but all of them are one unknown token for Unigram.
  ...normalizers
    .filter(({ type }) => type !== 'StripAccents' && type !== 'Sequence')
    .map((normalizer) => ['unigram', { normalizer }] as const),
  ['word-piece', { normalizer: { type: 'Strip', strip_left: true, strip_right: true } }] as const,
  ...splits.map((split) => ['word-piece', { pre_tokenizer: split }] as const),
  ...['Whitespace', 'Digits', 'WhitespaceSplit'].map(
    (type) => ['word-piece', { pre_tokenizer: { type, individual_digits: false } }] as const,
  ),
  ...metaspaces.map((pre_tokenizer) => ['unigram', { pre_tokenizer }] as const),
  ...[true, false].flatMap((trim_offsets) => [
    [
      'byte-level',
      { pre_tokenizer: byteLevel, post_processor: { ...byteLevel, trim_offsets } },
    ] as const,
    [
      'byte-level',
      { post_processor: { ...roberta, trim_offsets, add_prefix_space: trim_offsets } },
    ] as const,
  ]),
  ['word-piece', { normalizer: null, pre_tokenizer: null }] as const,
];

describe('the places of tokens by other parts', () => {
  const some = hardStrings(200, 7);
  it.each(variants.map(([name, parts]) => [name, JSON.stringify(parts), parts] as const))(
    'are those of the Rust library: %s with %s',
    async (name, _text, parts) => {
      const file = changed(name, parts);
      const rust = RustTokenizer.fromString(file);
      const tokenizer = Tokenizer.fromJson(JSON.parse(file));
      expect(await differentOffsets(tokenizer, rust, some)).toEqual([]);
      const ids = (await rust.encodeBatch([...some])).map((encoding) => encoding.getIds().join());
      const equal = some.filter((text, i) => tokenizer.encode(text).inputIds.join() === ids[i]);
      expect(equal.length).toBeGreaterThan(0.95 * some.length);
    },
  );
});
