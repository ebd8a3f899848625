import { Tokenizer } from '@shardwise/data';
import { Tokenizer as RustTokenizer } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { hardStrings } from './hard-strings.ts';
import { differentOffsets, rustOffsets } from './rust-offsets.ts';
import { textOf, trained } from './tokenizer-files.ts';

const strings = hardStrings(300, 3);

describe.each(trained)('the places of tokens by the tokenizer %s', (name) => {
  const file = textOf(name);
  const tokenizer = Tokenizer.fromJson(JSON.parse(file));
  const rust = RustTokenizer.fromString(file);

  it('are those of the Rust library for hard strings', async () => {
    expect(await differentOffsets(tokenizer, rust, strings)).toEqual([]);
  });

  it('are those of the Rust library for pairs that are cut', async () => {
    const special = tokenizer.encode('', { pair: '' }).inputIds.length;
    const maxLength = special + 6;
    rust.setTruncation(maxLength, { direction: 'left' });
    for (const [index, pair] of strings.slice(1, 60).entries()) {
      const text = strings[index] ?? '';
      const options = { pair, maxLength, truncationSide: 'left' } as const;
      const encoding = tokenizer.encode(text, { ...options, returnOffsetsMapping: true });
      const wanted = await rust.encode(text, pair);
      expect(encoding.offsetMapping).toEqual(rustOffsets(wanted, [text, pair]));
      const sequences = wanted.getSequenceIds().map((sequence) => sequence ?? undefined);
      expect(encoding.sequenceIds).toEqual(sequences);
      const { offsetMapping: _o, sequenceIds: _s, ...plain } = encoding;
      expect(plain).toEqual(tokenizer.encode(text, options));
    }
  });
});
