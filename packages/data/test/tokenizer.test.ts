import { ConfigError, DataError } from '@shardwise/core';
import { Tokenizer } from '@shardwise/data';
import { AddedToken, Tokenizer as RustTokenizer } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { hardStrings } from './hard-strings.ts';
import { textOf, trained } from './tokenizer-files.ts';

const strings = hardStrings(300, 2);
const wordPiece: Record<string, unknown> = JSON.parse(textOf('word-piece'));

describe.each(trained)('the tokenizer %s', (name) => {
  const file = textOf(name);
  const tokenizer = Tokenizer.fromJson(JSON.parse(file));
  const rust = RustTokenizer.fromString(file);

  it('encodes and decodes hard strings as the Rust library does', async () => {
    const encodings = await rust.encodeBatch([...strings]);
    const ids = encodings.map((encoding) => encoding.getIds());
    expect(strings.map((text) => tokenizer.encode(text).inputIds)).toEqual(ids);
    const texts = await rust.decodeBatch(ids, true);
    expect(ids.map((row) => tokenizer.decode(row, { skipSpecialTokens: true }))).toEqual(texts);
  });

  it('encodes pairs as the Rust library does', async () => {
    for (const [index, text] of strings.slice(1).entries()) {
      const pair = strings[index] ?? '';
      const encoding = await rust.encode(text, pair);
      expect(tokenizer.encode(text, { pair })).toEqual({
        inputIds: encoding.getIds(),
        attentionMask: encoding.getAttentionMask(),
        tokenTypeIds: encoding.getTypeIds(),
      });
    }
  });

  it.each(['left', 'right'] as const)('cuts texts and pairs on the %s', async (truncationSide) => {
    const special = tokenizer.encode('', { pair: '' }).inputIds.length;
    const options = { maxLength: special + 6, truncationSide };
    const cutting = RustTokenizer.fromString(file);
    cutting.setTruncation(options.maxLength, { direction: truncationSide });
    for (const [index, text] of strings.slice(0, 60).entries()) {
      const pair = strings[index + 1] ?? '';
      const alone = await cutting.encode(text);
      expect(tokenizer.encode(text, options).inputIds).toEqual(alone.getIds());
      const both = await cutting.encode(text, pair);
      expect(tokenizer.encode(text, { ...options, pair }).inputIds).toEqual(both.getIds());
    }
  });

  it('gives the bytes of each token, which are those of the text behind another token', () => {
    const before = tokenizer.encode('a', { addSpecialTokens: false }).inputIds;
    const { length } = tokenizer.decode(before);
    for (const text of strings) {
      const { inputIds } = tokenizer.encode(text, { addSpecialTokens: false });
      const bytes = inputIds.flatMap((id) => tokenizer.bytesOf(id) ?? []);
      const expected = tokenizer.decode([...before, ...inputIds]).slice(length);
      // A decoder writes U+FFFD for bytes that are no character.
      if (expected.includes('\ufffd')) continue;
      expect(new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes))).toBe(
        expected,
      );
    }
    expect(tokenizer.bytesOf(tokenizer.vocabularySize)).toBeUndefined();
  });

  it('gives the text of a stream of tokens piece by piece, and never a part of a character', () => {
    for (const text of strings) {
      const { inputIds } = tokenizer.encode(text);
      const stream = tokenizer.decodeStream();
      const pieces = inputIds.map((id) => stream.push(id));
      expect([...pieces, stream.end()].join('')).toBe(tokenizer.decode(inputIds));
      if (!text.includes('\ufffd')) expect(pieces.join('')).not.toContain('\ufffd');
    }
  });
});

describe('added tokens', () => {
  it('take the blanks around them and stand alone, as they say', async () => {
    const rust = RustTokenizer.fromString(JSON.stringify(wordPiece));
    rust.addAddedTokens([
      new AddedToken('red', false, { singleWord: true, normalized: true }),
      new AddedToken('Blue', false, { leftStrip: true, rightStrip: true, normalized: false }),
      new AddedToken('[X]', true, { rightStrip: true }),
    ]);
    const path = `${process.env['TMPDIR'] ?? '/tmp'}/added-${process.pid}.json`;
    rust.save(path);
    const { readFileSync, rmSync } = await import('node:fs');
    const tokenizer = Tokenizer.fromJson(JSON.parse(readFileSync(path, 'utf8')));
    rmSync(path);
    const texts = [
      'a red car',
      'redder',
      'infrared',
      'red',
      'éred red',
      'a  Blue \u0085 b',
      'BlueBlue',
      'Blue\ufeff b',
      '[X]   y[X] [X]',
      'red\u0301',
      'red_',
      'x-red-y',
      'Red',
      '[MASK] [MASK]',
      'a [MASK]b',
    ];
    for (const text of texts) {
      const encoding = await rust.encode(text);
      expect([text, tokenizer.encode(text).inputIds]).toEqual([text, encoding.getIds()]);
    }
  });
});

describe('a pair that is cut', () => {
  it('gives the longer text the greater part of an odd number of tokens', () => {
    const tokenizer = Tokenizer.fromJson(wordPiece);
    const types = (text: string, pair: string): string =>
      tokenizer.encode(text, { pair, maxLength: 8 }).tokenTypeIds.join('');
    expect(types('a a a a a', 'b b b b')).toBe('00000111');
    expect(types('a a a a', 'b b b b b')).toBe('00001111');
    expect(types('a', 'b b b b b b b')).toBe('00011111');
    expect(() => tokenizer.encode('a', { pair: 'b', maxLength: 2 })).toThrow(/3 special tokens/);
  });
});

describe('batches', () => {
  const config = { pad_token: '[PAD]' };
  const tokenizer = Tokenizer.fromJson(wordPiece, { config });
  const texts = ['the ranks', 'all human beings', ['a', 'b']] as const;

  it('are rows of the longest text, with a mask of what is padded', () => {
    const { inputIds, attentionMask, tokenTypeIds } = tokenizer.encodeBatch(texts);
    const rows = [
      tokenizer.encode('the ranks'),
      tokenizer.encode('all human beings'),
      tokenizer.encode('a', { pair: 'b' }),
    ];
    const length = Math.max(...rows.map((row) => row.inputIds.length));
    const padded = (values: readonly number[]): number[] =>
      Array.from({ length }, (_, i) => values[i] ?? 0);
    expect(inputIds.shape).toEqual([3, length]);
    expect([...inputIds.data]).toEqual(rows.flatMap((row) => padded(row.inputIds)));
    expect([...attentionMask.data]).toEqual(rows.flatMap((row) => padded(row.attentionMask)));
    expect([...tokenTypeIds.data]).toEqual(rows.flatMap((row) => padded(row.tokenTypeIds)));
  });

  it('have the length, the multiple and the side that are asked for', () => {
    const whole = tokenizer.encodeBatch(['a'], { padding: 'maxLength', maxLength: 5 });
    expect([...whole.attentionMask.data]).toEqual([1, 1, 1, 0, 0]);
    const multiple = tokenizer.encodeBatch(['a'], { padToMultipleOf: 4, paddingSide: 'left' });
    expect([...multiple.attentionMask.data]).toEqual([0, 1, 1, 1]);
    const left = Tokenizer.fromJson(wordPiece, { config: { ...config, padding_side: 'left' } });
    expect([...left.encodeBatch(['a', 'a b']).attentionMask.data]).toEqual([
      0, 1, 1, 1, 1, 1, 1, 1,
    ]);
    expect(() => tokenizer.encodeBatch(['a', 'a b'], { padding: 'none' })).toThrow(/rows of 3, 4/);
    expect(() => tokenizer.encodeBatch(['a'], { padding: 'maxLength' })).toThrow(/no maxLength/);
  });

  it('need a token for padding only where rows are padded', () => {
    const plain = Tokenizer.fromJson(wordPiece);
    expect(plain.encodeBatch(['a', 'b']).inputIds.shape).toEqual([2, 3]);
    expect(() => plain.encodeBatch(['a', 'a b'])).toThrow(/without a token for padding/);
  });
});

describe('special tokens', () => {
  it('are those of tokenizer_config.json, and then of special_tokens_map.json', () => {
    const tokenizer = Tokenizer.fromJson(wordPiece, {
      config: { mask_token: { content: '[MASK]', lstrip: true }, eos_token: null },
      specialTokensMap: { pad_token: '[PAD]', eos_token: '[SEP]', mask_token: '[CLS]' },
    });
    expect(tokenizer.specialTokens).toEqual({ mask: '[MASK]', pad: '[PAD]', eos: '[SEP]' });
    const { maskTokenId, padTokenId, eosTokenId, bosTokenId } = tokenizer;
    expect([maskTokenId, padTokenId, eosTokenId, bosTokenId]).toEqual([4, 0, 3, undefined]);
    expect([...tokenizer.specialIds].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
  });
});

describe('chat templates', () => {
  const chatTemplate =
    "{% for message in messages %}{{ bos_token + message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}" +
    "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";
  const config = { bos_token: '[CLS]' };
  const messages = [{ role: 'user', content: 'Hi' }];

  it('write messages, tools and the beginning of the answer', () => {
    const tokenizer = Tokenizer.fromJson(wordPiece, { config, chatTemplate });
    expect(tokenizer.applyChatTemplate(messages)).toBe('[CLS]user: Hi\n');
    expect(
      tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true, tools: [{ name: 'f' }] }),
    ).toBe('[CLS]user: Hi\n[{"name": "f"}]assistant:');
  });

  it('are chosen by name if there are several', () => {
    const templates = [
      { name: 'default', template: 'plain' },
      { name: 'tool_use', template: 'with tools' },
    ];
    const tokenizer = Tokenizer.fromJson(wordPiece, { config: { chat_template: templates } });
    expect(tokenizer.applyChatTemplate(messages)).toBe('plain');
    expect(tokenizer.applyChatTemplate(messages, { tools: [{}] })).toBe('with tools');
    expect(() => tokenizer.applyChatTemplate(messages, { template: 'rag' })).toThrow(
      /the templates default, tool_use/,
    );
  });

  it('say what is wrong: none, a mistake in one, and messages that one refuses', () => {
    const apply = (chatTemplate?: string): string =>
      Tokenizer.fromJson(
        wordPiece,
        chatTemplate === undefined ? {} : { chatTemplate },
      ).applyChatTemplate(messages);
    expect(() => apply()).toThrow(ConfigError);
    expect(() => apply('{% if %}')).toThrow(ConfigError);
    expect(() => apply("{{ raise_exception('roles must alternate') }}")).toThrow(DataError);
    expect(() => apply("{{ raise_exception('roles must alternate') }}")).toThrow(/must alternate/);
  });
});

describe('files that are refused', () => {
  const file = (part: object): unknown => ({ ...wordPiece, ...part });
  it.each<[string, unknown, RegExp]>([
    ['no object', 'text', /the file/],
    [
      'a model of an unknown type',
      file({ model: { type: 'Neural' } }),
      /model\.type: Neural, which is not known here/,
    ],
    ['an unknown normalizer', file({ normalizer: { type: 'Nmt' } }), /Known are BertNormalizer/],
    [
      'an unknown part of a sequence',
      file({ pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'UnicodeScripts' }] } }),
      /UnicodeScripts, which is not/,
    ],
    [
      'an id that is no number',
      file({ added_tokens: [{ id: '1', content: 'a' }] }),
      /added_tokens\.0\.id/,
    ],
    [
      'dropout',
      file({ model: { type: 'BPE', vocab: {}, merges: [], dropout: 0.1 } }),
      /dropout: 0\.1/,
    ],
    [
      'a merge of three',
      file({ model: { type: 'BPE', vocab: {}, merges: ['a b c'] } }),
      /the merge 'a b c'/,
    ],
    [
      'an id of a vocabulary that is no number',
      file({ model: { type: 'WordPiece', unk_token: 'a', vocab: { a: '0' } } }),
      /model\.vocab: expected ids/,
    ],
    [
      'a score that is missing',
      file({ model: { type: 'Unigram', vocab: [['a']], unk_id: 0 } }),
      /expected a list of tokens with their scores/,
    ],
    [
      'an unknown token beyond the vocabulary',
      file({ model: { type: 'Unigram', vocab: [['a', 0]], unk_id: 1 } }),
      /unk_id 1/,
    ],
    [
      'a pattern that is none',
      file({ pre_tokenizer: { type: 'Split', pattern: { Regex: '(' }, behavior: 'Isolated' } }),
      /regular expression \(/,
    ],
    [
      'a map that is damaged',
      file({ normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } }),
      /a trie of 0 bytes/,
    ],
    [
      'a map that is no base64',
      file({ normalizer: { type: 'Precompiled', precompiled_charsmap: '!' } }),
      /not base64/,
    ],
  ])('%s', (_name, json, message) => {
    expect(() => Tokenizer.fromJson(json)).toThrow(ConfigError);
    expect(() => Tokenizer.fromJson(json, { name: 'my.json' })).toThrow(message);
  });

  it('a text that no token has, without an unknown token', () => {
    const model = { type: 'BPE', vocab: { a: 0 }, merges: [], unk_token: '?' };
    const tokenizer = Tokenizer.fromJson({ model });
    expect(tokenizer.encode('aa').inputIds).toEqual([0, 0]);
    expect(() => tokenizer.encode('ab')).toThrow(DataError);
  });
});
