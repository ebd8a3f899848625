const encoder = new TextEncoder();

/**
 * GPT-2's letters for the 256 bytes: bytes that are printed stand for themselves, and the others for the letters from
 * U+0100 on.
 */
const LETTERS: readonly string[] = lettersOfBytes();
const BYTES: ReadonlyMap<string, number> = new Map(LETTERS.map((letter, byte) => [letter, byte]));

function lettersOfBytes(): readonly string[] {
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    const isPrinted =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCharCode(isPrinted ? byte : 256 + others++);
  });
}

/** A letter for each byte of a text in UTF-8. */
export function bytesAsLetters(text: string): string {
  let letters = '';
  for (const byte of encoder.encode(text)) letters += LETTERS[byte] ?? '';
  return letters;
}

/** The bytes that the letters of a token stand for. A token with other letters, such as an added one, is text. */
export function bytesOfLetters(token: string): readonly number[] {
  const bytes: number[] = [];
  for (const letter of token) {
    const byte = BYTES.get(letter);
    if (byte === undefined) return [...encoder.encode(token)];
    bytes.push(byte);
  }
  return bytes;
}
