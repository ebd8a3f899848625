import { Tokenizer } from '@shardwise/data';
import { Tokenizer as RustTokenizer } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { hardStrings } from './hard-strings.ts';
import { gpt2, textOf, trained } from './tokenizer-files.ts';

const strings = hardStrings(10_000, 1);
const files = [...trained.map((name) => [name, textOf(name)] as const), ['gpt-2', gpt2()] as const];

describe.each(files)('the tokenizer %s on 10,000 hard strings', (_name, file) => {
  const tokenizer = Tokenizer.fromJson(JSON.parse(file));
  const rust = RustTokenizer.fromString(file);

  it('has the ids and types of the Rust library, and its texts of them', async () => {
    const encodings = await rust.encodeBatch([...strings]);
    const different = strings.filter((text, index) => {
      const { inputIds, tokenTypeIds } = tokenizer.encode(text);
      const encoding = encodings[index];
      return (
        inputIds.join() !== encoding?.getIds().join() ||
        tokenTypeIds.join() !== encoding.getTypeIds().join()
      );
    });
    expect(different).toEqual([]);

    const rows = encodings.map((encoding) => encoding.getIds());
    const texts = await rust.decodeBatch(rows, false);
    expect(rows.map((ids) => tokenizer.decode(ids))).toEqual(texts);
  });

  it('decodes ids that no text has, as the Rust library does', async () => {
    const rows = strings
      .slice(0, 2000)
      .map((text, row) =>
        tokenizer
          .encode(text)
          .inputIds.map((id, i) => (id * 7 + i + row) % tokenizer.vocabularySize),
      );
    const texts = await rust.decodeBatch(rows, true);
    expect(rows.map((ids) => tokenizer.decode(ids, { skipSpecialTokens: true }))).toEqual(texts);
  });
});
