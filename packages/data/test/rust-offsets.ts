import type { Tokenizer } from '@shardwise/data';
import type { Encoding, Tokenizer as RustTokenizer } from 'tokenizers';

/** The places that the Rust library gives, in UTF-16 units. It counts characters of the text, or of the pair. */
export function rustOffsets(
  encoding: Encoding,
  texts: readonly string[],
): readonly (readonly number[])[] {
  const units = texts.map((text) => {
    let at = 0;
    return [0, ...Array.from(text.toWellFormed(), (letter) => (at += letter.length))];
  });
  const sequences = encoding.getSequenceIds();
  return encoding.getOffsets().map((offsets, token) => {
    const own = units[sequences[token] ?? 0];
    return offsets.map((offset) => own?.[offset] ?? -1);
  });
}

/**
 * The texts whose tokens have other places than the Rust library says, with both. Texts that have other tokens are left
 * out: the library knows the forms of an older Unicode.
 */
export async function differentOffsets(
  tokenizer: Tokenizer,
  rust: RustTokenizer,
  texts: readonly string[],
): Promise<readonly unknown[]> {
  const encodings = await rust.encodeBatch([...texts]);
  return texts.flatMap((text, index) => {
    const encoding = encodings[index];
    if (encoding === undefined) return [{ text }];
    if (encoding.getIds().join() !== tokenizer.encode(text).inputIds.join()) return [];
    const found = tokenizer.encode(text, { returnOffsetsMapping: true }).offsetMapping;
    const wanted = rustOffsets(encoding, [text]);
    return JSON.stringify(found) === JSON.stringify(wanted) ? [] : [{ text, found, wanted }];
  });
}
