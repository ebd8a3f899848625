import { ConfigError, DataError } from '@shardwise/core';
import { padCollate, tokenClassificationSample, Tokenizer } from '@shardwise/data';
import { describe, expect, it } from 'vitest';
import { textOf, trained } from './tokenizer-files.ts';

const words = ['Alle', 'Menschen,', '10,000', 'born', '🏳️‍🌈', 'equal'];
const labels = [1, 2, 3, 4, 5, 6];

describe.each(trained)('labels of words for the tokenizer %s', (name) => {
  const tokenizer = Tokenizer.fromJson(JSON.parse(textOf(name)));
  const {
    inputIds,
    offsetMapping = [],
    sequenceIds = [],
  } = tokenizer.encode(words.join(' '), {
    returnOffsetsMapping: true,
  });
  /** The word of each token, found by counting the blanks before the token's first letter. */
  const wordOf = offsetMapping.map(([start, end], token) => {
    const text = words.join(' ');
    const part = text.slice(start, end);
    if (sequenceIds[token] === undefined || part.trim() === '') return undefined;
    return text.slice(0, start + part.length - part.trimStart().length).split(' ').length - 1;
  });

  it('are on the first token of each word', () => {
    const sample = tokenClassificationSample(tokenizer, { words, labels });
    const wanted = wordOf.map((word, token) =>
      word === undefined || wordOf.indexOf(word) < token ? -100 : labels[word],
    );
    expect([...(sample['inputIds']?.data ?? [])]).toEqual(inputIds);
    expect([...(sample['labels']?.data ?? [])]).toEqual(wanted);
    expect(labels.every((label) => wanted.includes(label))).toBe(true);
  });

  it('are on all tokens of a word, if that is asked for', () => {
    const options = { labelAllTokens: true };
    const sample = tokenClassificationSample(tokenizer, { words, labels }, options);
    const wanted = wordOf.map((word) => (word === undefined ? -100 : labels[word]));
    expect([...(sample['labels']?.data ?? [])]).toEqual(wanted);
  });

  it('are cut off with their tokens, and padded in a batch', () => {
    const cut = tokenClassificationSample(tokenizer, { words, labels }, { maxLength: 5 });
    expect([cut['inputIds']?.shape, cut['labels']?.shape]).toEqual([[5], [5]]);
    const whole = tokenClassificationSample(tokenizer, { words, labels });
    const batch = padCollate({ padTokenId: 0 })([cut, whole]);
    expect([...(batch['labels']?.data.slice(5, inputIds.length) ?? [])]).toEqual(
      inputIds.slice(5).map(() => -100),
    );
  });
});

describe('labels of words', () => {
  const tokenizer = Tokenizer.fromJson(JSON.parse(textOf('word-piece')));

  it('refuse words without a label, and a token of two words', () => {
    expect(() => tokenClassificationSample(tokenizer, { words, labels: [1] })).toThrow(ConfigError);
    const joined = { words: ['shard', 'wise'], labels: [1, 2] };
    const shared = (): unknown => tokenClassificationSample(tokenizer, joined, { separator: '' });
    const { inputIds } = tokenizer.encode('shardwise', { addSpecialTokens: false });
    expect(inputIds.length).toBe(1);
    expect(shared).toThrow(DataError);
  });
});
