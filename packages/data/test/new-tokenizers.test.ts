import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from '@shardwise/core';
import { byteTokenizer, Tokenizer, trainWordPieces } from '@shardwise/data';
import { loadTokenizer, saveTokenizer } from '@shardwise/data/node';
import { assert, property, string } from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { textOf } from './tokenizer-files.ts';

let folder = '';
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'new-tokenizers-'))));
afterEach(() => rmSync(folder, { recursive: true }));

describe('byteTokenizer', () => {
  const tokenizer = byteTokenizer();

  it('has a token for each byte, whose number is its value plus 4', () => {
    expect(tokenizer.vocabularySize).toBe(260);
    const text = 'a é\n';
    const bytes = Array.from(new TextEncoder().encode(text), (byte) => byte + 4);
    expect(tokenizer.encode(text).inputIds).toEqual(bytes);
  });

  it('gives back every text', () => {
    assert(
      property(string({ unit: 'binary' }), (text) => {
        const { inputIds } = tokenizer.encode(text);
        expect(tokenizer.decode(inputIds, { skipSpecialTokens: true })).toBe(
          text.replaceAll(/<s>|<pad>|<\/s>|<mask>/g, ''),
        );
      }),
    );
  });

  it('writes conversations by its template or by that of the caller', () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ];
    expect(tokenizer.applyChatTemplate(messages)).toBe('<s>a\nb</s>');
    const own = byteTokenizer({ chatTemplate: '{{ messages | length }}' });
    expect(own.applyChatTemplate(messages)).toBe('2');
  });
});

describe('trainWordPieces', () => {
  it('merges the most frequent pairs of pieces first', () => {
    const tokenizer = trainWordPieces(['ab ab abc abc ab'], { vocabularySize: 9 });
    const names = Array.from({ length: 9 }, (_, id) => tokenizer.tokenOf(id));
    expect(names.slice(5)).toEqual(['##b', '##c', 'a', 'ab']);
    expect(tokenizer.decode(tokenizer.encode('abc ab').inputIds)).toBe('[CLS] abc ab [SEP]');
  });

  it('refuses texts without words, and a vocabulary without place for a letter', () => {
    expect(() => trainWordPieces(['once'], { vocabularySize: 9 })).toThrow(ConfigError);
    expect(() => trainWordPieces(['a a'], { vocabularySize: 5 })).toThrow(/vocabularySize/);
  });
});

describe('saveTokenizer', () => {
  it('writes what a tokenizer was made of, so that it loads as the same one', async () => {
    const tokenizer = Tokenizer.fromJson(JSON.parse(textOf('word-piece')), {
      config: { pad_token: '[PAD]' },
      specialTokensMap: { cls_token: '[CLS]' },
      chatTemplate: 'hello',
    });
    await saveTokenizer(tokenizer, join(folder, 'new'));
    expect(readdirSync(join(folder, 'new')).toSorted()).toEqual([
      'chat_template.jinja',
      'special_tokens_map.json',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    const loaded = await loadTokenizer(join(folder, 'new'));
    expect(loaded.files()).toEqual(tokenizer.files());
    expect(loaded.specialTokens).toEqual(tokenizer.specialTokens);
    expect(loaded.encode('the ranks')).toEqual(tokenizer.encode('the ranks'));
  });

  it('may be called by several ranks at once', async () => {
    const tokenizer = byteTokenizer();
    await Promise.all(Array.from({ length: 4 }, () => saveTokenizer(tokenizer, folder)));
    expect(readdirSync(folder).toSorted()).toEqual(['tokenizer.json', 'tokenizer_config.json']);
    expect((await loadTokenizer(folder)).files()).toEqual(tokenizer.files());
  });
});
