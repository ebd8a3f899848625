import { bytesAsLetters } from './byte-letters.ts';
import { patternOf } from './pattern.ts';
import type { MetaspaceConfig, PreTokenizerConfig, SplitBehavior } from './file-types.ts';
import { punctuation } from './unicode-8.ts';

/**
 * Divides a text into words, within which tokens are found. `isFirst` says whether the text is the beginning of what is
 * encoded, and not what follows an added token.
 */
export type PreTokenizer = (text: string, isFirst: boolean) => readonly string[];

/**
 * GPT-2's pattern. JavaScript's `\s` has U+FEFF and lacks U+0085; Unicode's property White_Space is what the files mean.
 */
const GPT_2 =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** Makes the function that a `pre_tokenizer` of a file describes. */
export function createPreTokenizer(config: PreTokenizerConfig | null | undefined): PreTokenizer {
  if (config === null || config === undefined) return (text) => [text];
  switch (config.type) {
    case 'Sequence': {
      const steps = config.pretokenizers.map(createPreTokenizer);
      return (text, isFirst) =>
        steps.reduce<readonly string[]>(
          (words, step) => words.flatMap((word, index) => step(word, isFirst && index === 0)),
          [text],
        );
    }
    case 'BertPreTokenizer': {
      const separators = new RegExp(punctuation, 'gv');
      return (text) =>
        split(text, /\p{White_Space}/gu, 'Removed').flatMap((word) =>
          split(word, separators, 'Isolated'),
        );
    }
    case 'Whitespace': {
      const words = patternOf({ Regex: '\\w+|[^\\w\\s]+' });
      return (text) => text.match(words) ?? [];
    }
    case 'WhitespaceSplit':
      return (text) => split(text, /\p{White_Space}/gu, 'Removed');
    case 'Metaspace':
      return metaspace(config);
    case 'ByteLevel': {
      const { add_prefix_space: prefix, use_regex: divide } = config;
      return (text) => {
        const whole = prefix && !text.startsWith(' ') ? ` ${text}` : text;
        const words = divide ? split(whole, GPT_2, 'Isolated') : [whole];
        return words.map(bytesAsLetters);
      };
    }
    case 'Split': {
      const pattern = patternOf(config.pattern);
      return (text) => split(text, pattern, config.behavior, config.invert);
    }
    case 'Punctuation': {
      const pattern = new RegExp(punctuation, 'gv');
      return (text) => split(text, pattern, config.behavior);
    }
    case 'Digits': {
      const behavior = config.individual_digits ? 'Isolated' : 'Contiguous';
      return (text) => split(text, /\p{N}/gu, behavior);
    }
    default: {
      const pattern = patternOf({ String: config.delimiter });
      return (text) => split(text, pattern, 'Removed');
    }
  }
}

function metaspace(config: MetaspaceConfig): PreTokenizer {
  const { replacement, split: divides } = config;
  const prepend = prependSchemeOf(config);
  const blank = patternOf({ String: replacement });
  return (text, isFirst) => {
    let result = text.replaceAll(' ', replacement);
    const wanted = prepend === 'always' || (prepend === 'first' && isFirst);
    if (wanted && !result.startsWith(replacement)) result = replacement + result;
    return divides ? split(result, blank, 'MergedWithNext') : [result];
  };
}

/** Whether a blank is put before a text. Older files say it by `add_prefix_space`. */
export function prependSchemeOf(config: MetaspaceConfig): 'always' | 'never' | 'first' {
  return config.prepend_scheme ?? (config.add_prefix_space === false ? 'never' : 'always');
}

/**
 * Divides a text at the matches of a pattern, as `Split` of Hugging Face's tokenizers does. With `invert`, what lies
 * between the matches is what is divided at. Parts without characters are left out.
 */
function split(
  text: string,
  pattern: RegExp,
  behavior: SplitBehavior,
  invert = false,
): readonly string[] {
  const pieces: { readonly text: string; readonly isMatch: boolean }[] = [];
  let end = 0;
  const add = (start: number, stop: number, isMatch: boolean): void => {
    if (stop > start) pieces.push({ text: text.slice(start, stop), isMatch: isMatch !== invert });
  };
  for (const match of text.matchAll(pattern)) {
    add(end, match.index, false);
    end = match.index + match[0].length;
    add(match.index, end, true);
  }
  add(end, text.length, false);
  if (behavior === 'Removed') return pieces.flatMap(({ text, isMatch }) => (isMatch ? [] : [text]));
  const parts: string[] = [];
  let joinsNext = false;
  for (const [index, { text, isMatch }] of pieces.entries()) {
    const before = pieces[index - 1];
    const joins =
      joinsNext ||
      (behavior === 'MergedWithPrevious' && isMatch && before?.isMatch === false) ||
      (behavior === 'Contiguous' && before?.isMatch === isMatch);
    if (joins && parts.length > 0) parts[parts.length - 1] += text;
    else parts.push(text);
    joinsNext = behavior === 'MergedWithNext' && isMatch && pieces[index + 1]?.isMatch === false;
  }
  return parts;
}
