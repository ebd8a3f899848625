import { PrecompiledCharsmap } from './precompiled-charsmap.ts';
import { patternOf } from './pattern.ts';
import type { BertNormalizerConfig, NormalizerConfig } from './file-types.ts';
import { nonspacingMarks, otherCharacters } from './unicode-8.ts';

/** Changes a text before it is divided into tokens. */
export type Normalizer = (text: string) => string;

/**
 * Makes the function that a `normalizer` of a file describes. These are written here and not taken from the library of
 * tokenizers, whose blanks are those of JavaScript, and which takes characters beyond U+FFFF apart.
 */
export function createNormalizer(config: NormalizerConfig | null | undefined): Normalizer {
  if (config === null || config === undefined) return (text) => text;
  switch (config.type) {
    case 'Sequence': {
      const normalizers = config.normalizers.map(createNormalizer);
      return (text) => normalizers.reduce((result, normalize) => normalize(result), text);
    }
    case 'BertNormalizer':
      return bertNormalizer(config);
    case 'Precompiled': {
      if (config.precompiled_charsmap === null || config.precompiled_charsmap === undefined) {
        return (text) => text;
      }
      const map = PrecompiledCharsmap.parse(config.precompiled_charsmap);
      return (text) => map.normalize(text);
    }
    case 'Replace': {
      const { content } = config;
      const pattern = patternOf(config.pattern);
      return (text) => text.replace(pattern, () => content);
    }
    case 'Strip':
      return (text) => strip(text, config.strip_left, config.strip_right);
    case 'Prepend':
      return (text) => (text === '' ? text : config.prepend + text);
    case 'StripAccents':
      return (text) => text.replace(/\p{M}/gu, '');
    case 'Lowercase':
      return lowercase;
    default:
      return (text) => text.normalize(config.type);
  }
}

/** Without JavaScript's rule for a sigma at the end of a word, which Rust applies to no letter alone. */
function lowercase(text: string): string {
  return text.replaceAll('Σ', 'σ').toLowerCase();
}

function strip(text: string, left: boolean, right: boolean): string {
  let result = text;
  if (left) result = result.replace(/^\p{White_Space}+/u, '');
  if (right) result = trimEnd(result);
  return result;
}

/** In linear time, which a regular expression for blanks at the end would not take. */
export function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && /\p{White_Space}/u.test(text[end - 1] ?? '')) end -= 1;
  return text.slice(0, end);
}

export const ideographs: RegExp =
  /[\u{3400}-\u{4dbf}\u{4e00}-\u{9fff}\u{f900}-\u{faff}\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

function bertNormalizer(config: BertNormalizerConfig): Normalizer {
  const { clean_text: clean, handle_chinese_chars: separate, lowercase: lower } = config;
  const stripAccents = config.strip_accents ?? lower;
  return (text) => {
    let result = text;
    if (clean) {
      result = result
        .replace(/[\0\ufffd]/g, '')
        .replace(otherCharacters, '')
        .replace(/\p{White_Space}/gu, ' ');
    }
    if (separate) result = result.replace(ideographs, ' $& ');
    if (stripAccents) result = result.normalize('NFD').replace(nonspacingMarks, '');
    return lower ? lowercase(result) : result;
  };
}
