import { readFileSync } from 'node:fs';
import { pickedFolder } from '@shardwise/core/extend';
import { Tokenizer } from '@shardwise/data';
import { ggufTokenizer } from '@shardwise/models';
import { expect, test } from 'vitest';
import { z } from 'zod';

// A vocabulary of sentencepiece in a GGUF file, next to sentencepiece and transformers (tools/golden-gguf.py).

const { file, cases } = z
  .object({
    file: z.string().transform((text) => new Uint8Array(Buffer.from(text, 'base64'))),
    cases: z.array(z.object({ text: z.string(), ids: z.array(z.number()), decoded: z.string() })),
  })
  .parse(
    JSON.parse(
      readFileSync(`${import.meta.dirname}/../packages/models/test/golden/gguf-spm.json`, 'utf8'),
    ),
  );

async function tokenizerOf(content: Uint8Array<ArrayBuffer>): Promise<Tokenizer> {
  const folder = pickedFolder([new File([content], 'model.gguf')]);
  const { tokenizer, config } = await ggufTokenizer(folder, 'model.gguf');
  return Tokenizer.fromJson(tokenizer, { config });
}

test('a vocabulary of sentencepiece gives its tokens of hard strings', async () => {
  const tokenizer = await tokenizerOf(file);
  for (const { text, ids } of cases) {
    const { inputIds } = tokenizer.encode(text, { addSpecialTokens: false });
    expect(inputIds, JSON.stringify(text)).toEqual(ids);
  }
});

test('texts begin with the first token if the file says nothing else', async () => {
  const tokenizer = await tokenizerOf(file);
  expect(tokenizer.bosTokenId).toBe(1);
  expect(tokenizer.encode('the').inputIds[0]).toBe(1);
});

test('tokens of sentencepiece become the text again', async () => {
  const tokenizer = await tokenizerOf(file);
  const added = /<s>|<\/s>|<unk>|<\|user\|>/;
  for (const { text, ids, decoded } of cases.filter((each) => !added.test(each.text))) {
    expect(tokenizer.decode(ids), JSON.stringify(text)).toBe(decoded);
  }
});

test('a vocabulary without the types of its tokens is an error', async () => {
  const changed = file.slice();
  const at = Buffer.from(file.buffer).indexOf('tokenizer.ggml.token_type');
  changed.set(Buffer.from('tokenizer.ggml.token_tail'), at);
  await expect(tokenizerOf(changed)).rejects.toThrow(/no "tokenizer\.ggml\.token_type"/);
});
