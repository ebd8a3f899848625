import type { Offsets } from './aligned-text.ts';
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
const GPT_2: RegExp =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

export const gpt2Rule: SplitRule = { pattern: GPT_2, behavior: 'Isolated' };

/** Where a text is divided. */
export interface SplitRule {
  readonly pattern: RegExp;
  readonly behavior: SplitBehavior;
  readonly invert?: boolean;
}

/** The divisions that a pre-tokenizer makes, one within another. Undefined for one that also changes the text. */
export function splitRulesOf(config: PreTokenizerConfig): readonly SplitRule[] | undefined {
  const blanks = { pattern: /\p{White_Space}/gu, behavior: 'Removed' } as const;
  switch (config.type) {
    case 'BertPreTokenizer':
      return [blanks, { pattern: new RegExp(punctuation, 'gv'), behavior: 'Isolated' }];
    case 'Whitespace': {
      const pattern = patternOf({ Regex: '\\w+|[^\\w\\s]+' });
      return [{ pattern, behavior: 'Removed', invert: true }];
    }
    case 'WhitespaceSplit':
      return [blanks];
    case 'Split': {
      const { behavior, invert } = config;
      return [{ pattern: patternOf(config.pattern), behavior, invert }];
    }
    case 'Punctuation':
      return [{ pattern: new RegExp(punctuation, 'gv'), behavior: config.behavior }];
    case 'Digits': {
      const behavior = config.individual_digits ? 'Isolated' : 'Contiguous';
      return [{ pattern: /\p{N}/gu, behavior }];
    }
    case 'CharDelimiterSplit':
      return [{ pattern: patternOf({ String: config.delimiter }), behavior: 'Removed' }];
    default:
      return undefined;
  }
}

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
    case 'Metaspace':
      return metaspace(config);
    case 'ByteLevel': {
      const { add_prefix_space: prefix, use_regex: divide } = config;
      return (text) => {
        const whole = prefix && !text.startsWith(' ') ? ` ${text}` : text;
        const words = divide ? split(whole, gpt2Rule) : [whole];
        return words.map(bytesAsLetters);
      };
    }
    default: {
      const rules = splitRulesOf(config) ?? [];
      return (text) =>
        rules.reduce<readonly string[]>(
          (words, rule) => words.flatMap((word) => split(word, rule)),
          [text],
        );
    }
  }
}

function metaspace(config: MetaspaceConfig): PreTokenizer {
  const { replacement, split: divides } = config;
  const rule = metaspaceRule(config);
  return (text, isFirst) => {
    let result = text.replaceAll(' ', replacement);
    if (putsBlank(config, result, isFirst)) result = replacement + result;
    return divides ? split(result, rule) : [result];
  };
}

export function metaspaceRule({ replacement }: MetaspaceConfig): SplitRule {
  return { pattern: patternOf({ String: replacement }), behavior: 'MergedWithNext' };
}

/** Whether a blank is put before a text, in which blanks are replaced. */
export function putsBlank(config: MetaspaceConfig, text: string, isFirst: boolean): boolean {
  const prepend = prependSchemeOf(config);
  const wanted = prepend === 'always' || (prepend === 'first' && isFirst);
  return wanted && !text.startsWith(config.replacement);
}

/** Whether a blank is put before a text. Older files say it by `add_prefix_space`. */
export function prependSchemeOf(config: MetaspaceConfig): 'always' | 'never' | 'first' {
  return config.prepend_scheme ?? (config.add_prefix_space === false ? 'never' : 'always');
}

function split(text: string, rule: SplitRule): readonly string[] {
  return splitRanges(text, rule).map(([start, end]) => text.slice(start, end));
}

/**
 * Divides a text at the matches of a pattern, as `Split` of Hugging Face's tokenizers does. With `invert`, what lies
 * between the matches is what is divided at. Parts without characters are left out.
 */
export function splitRanges(
  text: string,
  { pattern, behavior, invert = false }: SplitRule,
): readonly Offsets[] {
  const pieces: { readonly start: number; readonly end: number; readonly isMatch: boolean }[] = [];
  let last = 0;
  const add = (start: number, end: number, isMatch: boolean): void => {
    if (end > start) pieces.push({ start, end, isMatch: isMatch !== invert });
  };
  for (const match of text.matchAll(pattern)) {
    add(last, match.index, false);
    last = match.index + match[0].length;
    add(match.index, last, true);
  }
  add(last, text.length, false);
  if (behavior === 'Removed') {
    return pieces.flatMap(({ start, end, isMatch }): Offsets[] => (isMatch ? [] : [[start, end]]));
  }
  const parts: Offsets[] = [];
  let joinsNext = false;
  for (const [index, { start, end, isMatch }] of pieces.entries()) {
    const before = pieces[index - 1];
    const joins =
      joinsNext ||
      (behavior === 'MergedWithPrevious' && isMatch && before?.isMatch === false) ||
      (behavior === 'Contiguous' && before?.isMatch === isMatch);
    const open = parts.at(-1);
    if (joins && open !== undefined) parts[parts.length - 1] = [open[0], end];
    else parts.push([start, end]);
    joinsNext = behavior === 'MergedWithNext' && isMatch && pieces[index + 1]?.isMatch === false;
  }
  return parts;
}
