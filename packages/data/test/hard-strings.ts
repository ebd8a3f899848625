import { Generator } from '@shardwise/core';

/** Letters of every script that Unicode's properties name here, found by asking for each code point. */
const SCRIPTS = [
  'Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Nko Devanagari Bengali Gurmukhi Gujarati Oriya Tamil',
  'Telugu Kannada Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee Canadian_Aboriginal',
  'Ogham Runic Khmer Mongolian Hiragana Katakana Bopomofo Han Yi Gothic Deseret Tifinagh Coptic Cuneiform Javanese',
  'Egyptian_Hieroglyphs Adlam Vai Balinese Sundanese Tai_Tham Glagolitic Braille Linear_B Meetei_Mayek Osage',
].flatMap((names) => names.split(' '));

const PIECES = [
  'the',
  'The',
  "don't",
  "we'LL",
  'training',
  'shardwise',
  'Shardwise',
  'naïve',
  'İstanbul',
  'ΣΊΣΥΦΟΣ',
  'straße',
  'ẞ',
  'ﬁne',
  'Ａ',
  '①',
  '½',
  'a'.repeat(130),
  '7',
  '2024',
  '१२३',
  '٣',
  'x²',
  '1,000.5',
  '$',
  '€',
  '_',
  '`code`',
  '...',
  '…',
  '👩‍👩‍👧‍👦',
  '🏳️‍🌈',
  '👍🏽',
  '🇩🇪',
  '❤️',
  '😀',
  '1️⃣',
  '\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}',
  'e\u0301',
  'u\u0308',
  'a\u0323\u0307',
  '\u0301',
  '\u0300\u0301',
  'ä',
  'Å',
  'q\u0307\u0323',
  '각',
  '\u1100\u1161\u11a8',
  ' ',
  '  ',
  '   ',
  '\t',
  '\n',
  '\r\n',
  '\n\n',
  '\u000b',
  '\u000c',
  '\u0085',
  '\u00a0',
  '\u1680',
  '\u2003',
  '\u2028',
  '\u2029',
  '\u202f',
  '\u205f',
  '\u3000',
  '\ufeff',
  '\u200b',
  '\u200c',
  '\u200d',
  '\u2060',
  '\u00ad',
  '\u180e',
  '\u0000',
  '\u0001',
  '\u001b',
  '\u001f',
  '\u007f',
  '\u0080',
  '\u009f',
  '\ufffd',
  '\ufffe',
  '\ue000',
  '\u{10fffd}',
  '\u202e',
  '\u2066',
  '\u2069',
  'שלום',
  'مرحبا',
  '\u0640',
  '漢字',
  '中',
  '\u{20000}',
  '㐀',
  'ｶﾞ',
  'が',
  'กำ',
  'नि',
  'ক্ষ',
  '[CLS]',
  '[SEP]',
  '[MASK]',
  '[UNK]',
  '[PAD]',
  '<s>',
  '</s>',
  '<unk>',
  '<pad>',
  '<0x0A>',
  '<|endoftext|>',
  '<|eot_id|>',
  '<|code|>',
  '<|begin_of_text|>',
  '<extra_id_0>',
  '▁',
  '▁▁',
  'Ġ',
  'Ċ',
  '##ing',
  '№',
  '™',
  'ª',
  'º',
  'Ⅷ',
  'ǅ',
  'ŉ',
  '℃',
  '。',
  '、',
  '！',
  '?!',
  '«»',
  '—',
  '-',
  "'",
  '"',
  '”',
  '(',
  ')',
  '/',
  '\\',
  '|',
  '<',
  '>',
  '~',
  '^',
  '=',
  '+',
  'π',
  '∑',
];

/**
 * Strings on which tokenizers of different libraries tend to differ: letters of all scripts, emoji with joiners,
 * combining marks, blanks and controls of every kind, changes of direction, NUL, very long words and added tokens, joined
 * at random. The same seed gives the same strings.
 */
export function hardStrings(count: number, seed: number): readonly string[] {
  const generator = new Generator(seed);
  const below = (end: number): number => generator.random() % end;
  const letters = lettersOfScripts();
  const assigned = /^[^\p{Cn}\p{Cs}]$/u;
  const piece = (): string => {
    const kind = below(10);
    if (kind < 6) return PIECES[below(PIECES.length)] ?? '';
    if (kind < 9) {
      const script = letters[below(letters.length)] ?? [];
      return Array.from({ length: 1 + below(6) }, () => script[below(script.length)]).join('');
    }
    for (;;) {
      const letter = String.fromCodePoint(below(0x32000));
      if (assigned.test(letter)) return letter;
    }
  };
  return Array.from({ length: count }, () => {
    const glue = below(3) === 0 ? ' ' : '';
    return Array.from({ length: 1 + below(12) }, piece).join(glue);
  });
}

function lettersOfScripts(): readonly (readonly string[])[] {
  const patterns = SCRIPTS.map((script) => new RegExp(`^[\\p{Script=${script}}--\\p{Cn}]$`, 'v'));
  const letters: string[][] = SCRIPTS.map(() => []);
  for (let code = 0; code < 0x20000; code += code < 0x3000 ? 1 : 7) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const letter = String.fromCodePoint(code);
    const script = patterns.findIndex((pattern) => pattern.test(letter));
    if (script >= 0) letters[script]?.push(letter);
  }
  return letters.filter((list) => list.length > 0);
}
