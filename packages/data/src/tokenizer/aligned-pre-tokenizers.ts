import type { AlignedText } from './aligned-text.ts';
import { bytesAsLetters } from './byte-letters.ts';
import type { PreTokenizerConfig } from './file-types.ts';
import {
  gpt2Rule,
  metaspaceRule,
  putsBlank,
  splitRanges,
  type SplitRule,
  splitRulesOf,
} from './pre-tokenizers.ts';

/** Divides a text as `createPreTokenizer` does, and keeps where its characters come from. */
type AlignedPreTokenizer = (text: AlignedText, isFirst: boolean) => readonly AlignedText[];

/** Makes the function that a `pre_tokenizer` of a file describes. */
export function createAlignedPreTokenizer(
  config: PreTokenizerConfig | null | undefined,
): AlignedPreTokenizer {
  if (config === null || config === undefined) return (text) => [text];
  switch (config.type) {
    case 'Sequence': {
      const steps = config.pretokenizers.map(createAlignedPreTokenizer);
      return (text, isFirst) =>
        steps.reduce<readonly AlignedText[]>(
          (words, step) => words.flatMap((word, index) => step(word, isFirst && index === 0)),
          [text],
        );
    }
    case 'Metaspace': {
      const rule = metaspaceRule(config);
      return (text, isFirst) => {
        const whole = text.replace(/ /g, config.replacement);
        const marked = putsBlank(config, whole.text, isFirst)
          ? whole.prepend(config.replacement)
          : whole;
        return config.split ? split(marked, rule) : [marked];
      };
    }
    case 'ByteLevel': {
      const { add_prefix_space: prefix, use_regex: divide } = config;
      return (text) => {
        const whole = prefix && !text.text.startsWith(' ') ? text.prepend(' ') : text;
        const words = divide ? split(whole, gpt2Rule) : [whole];
        return words.map((word) => word.mapCharacters(bytesAsLetters));
      };
    }
    default: {
      const rules = splitRulesOf(config) ?? [];
      return (text) =>
        rules.reduce<readonly AlignedText[]>(
          (words, rule) => words.flatMap((word) => split(word, rule)),
          [text],
        );
    }
  }
}

function split(text: AlignedText, rule: SplitRule): readonly AlignedText[] {
  return splitRanges(text.text, rule).map(([start, end]) => text.slice(start, end));
}
