import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataError } from '@shardwise/core';
import { loadTokenizer } from '@shardwise/data/node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { textOf } from './tokenizer-files.ts';

let folder = '';
const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'tokenizer-'))));
afterEach(() => rmSync(folder, { recursive: true }));

describe('loadTokenizer', () => {
  it('reads tokenizer.json alone', async () => {
    write('tokenizer.json', textOf('word-piece'));
    const tokenizer = await loadTokenizer(folder);
    expect(tokenizer.decode(tokenizer.encode('the ranks').inputIds)).toBe('[CLS] the ranks [SEP]');
    expect(tokenizer.padTokenId).toBeUndefined();
  });

  it('reads the special tokens and the chat template beside it', async () => {
    write('tokenizer.json', textOf('word-piece'));
    write('tokenizer_config.json', '{ "pad_token": "[PAD]", "chat_template": "old" }');
    write('special_tokens_map.json', '{ "cls_token": { "content": "[CLS]" } }');
    write('chat_template.jinja', 'new');
    const tokenizer = await loadTokenizer(folder);
    expect(tokenizer.specialTokens).toEqual({ pad: '[PAD]', cls: '[CLS]' });
    expect(tokenizer.applyChatTemplate([])).toBe('new');
  });

  it('names the file that is missing or no JSON', async () => {
    await expect(loadTokenizer(folder)).rejects.toThrow(DataError);
    await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer\.json: no such file/);
    write('tokenizer.json', '{ "model": ');
    await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer\.json: no JSON/);
    write('tokenizer.json', textOf('word-piece'));
    write('tokenizer_config.json', 'version https://git-lfs');
    await expect(loadTokenizer(folder)).rejects.toThrow(/tokenizer_config\.json: no JSON/);
  });
});
