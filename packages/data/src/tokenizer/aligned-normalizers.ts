import type { AlignedText, Change } from './aligned-text.ts';
import type { NormalizerConfig } from './file-types.ts';
import { createNormalizer, ideographs } from './normalizers.ts';
import { patternOf } from './pattern.ts';
import { PrecompiledCharsmap } from './precompiled-charsmap.ts';
import { composed, decomposed } from './unicode-forms.ts';
import { nonspacingMarks, otherCharacters } from './unicode-8.ts';

/** Changes a text as `createNormalizer` does, and keeps where its characters come from. */
type AlignedNormalizer = (text: AlignedText) => AlignedText;

/** Makes the function that a `normalizer` of a file describes. */
export function createAlignedNormalizer(
  config: NormalizerConfig | null | undefined,
): AlignedNormalizer {
  if (config === null || config === undefined) return (text) => text;
  switch (config.type) {
    case 'Sequence': {
      const steps = config.normalizers.map(createAlignedNormalizer);
      return (text) => steps.reduce((result, step) => step(result), text);
    }
    case 'BertNormalizer': {
      const { clean_text: clean, handle_chinese_chars: separate, lowercase: lower } = config;
      const strips = config.strip_accents ?? lower;
      return (text) => {
        let result = text;
        if (clean) {
          result = result
            .mapCharacters((letter) =>
              /[\0\ufffd]/.test(letter) || matches(otherCharacters, letter) ? '' : letter,
            )
            .mapCharacters((letter) => (/\p{White_Space}/u.test(letter) ? ' ' : letter));
        }
        if (separate) {
          result = result.mapCharacters((letter) =>
            matches(ideographs, letter) ? ` ${letter} ` : letter,
          );
        }
        if (strips) {
          result = result
            .transform(decomposed(result.text, 'NFD'))
            .mapCharacters((letter) => (matches(nonspacingMarks, letter) ? '' : letter));
        }
        return lower ? result.mapCharacters(lowercase) : result;
      };
    }
    case 'Precompiled': {
      const { precompiled_charsmap: source } = config;
      if (source === null || source === undefined) return (text) => text;
      const map = PrecompiledCharsmap.parse(source);
      return (text) => text.transform(replacements(map, text.text));
    }
    case 'Replace': {
      const pattern = patternOf(config.pattern);
      return (text) => text.replace(pattern, config.content);
    }
    case 'Strip': {
      const strip = createNormalizer({ ...config, strip_right: false });
      const whole = createNormalizer(config);
      return (text) => {
        const start = config.strip_left ? text.text.length - strip(text.text).length : 0;
        return text.slice(start, start + whole(text.text).length);
      };
    }
    case 'Prepend':
      return (text) => text.prepend(config.prepend);
    case 'StripAccents':
      return (text) => text.mapCharacters((letter) => (/\p{M}/u.test(letter) ? '' : letter));
    case 'Lowercase':
      return (text) => text.mapCharacters(lowercase);
    default: {
      const { type } = config;
      return (text) =>
        text.transform(
          type === 'NFD' || type === 'NFKD'
            ? decomposed(text.text, type)
            : composed(text.text, type),
        );
    }
  }
}

const lowercase = createNormalizer({ type: 'Lowercase' });

/** Whether a character is of a class, whose expression is global. */
function matches(characters: RegExp, character: string): boolean {
  characters.lastIndex = 0;
  return characters.test(character);
}

/**
 * The changes of a map of characters. As in the Rust library, one that is removed is noted at the character before it, and
 * not at all at the beginning of a text.
 */
function replacements(map: PrecompiledCharsmap, text: string): readonly Change[] {
  const changes: Change[] = [];
  map.forEach(text, (part, replaced) => {
    if (replaced === undefined) {
      changes.push([part, 0]);
      return;
    }
    const made = Array.from(replaced);
    const more = made.length - Array.from(part).length;
    for (const [index, letter] of made.entries()) {
      changes.push([letter, index >= made.length - more ? 1 : 0]);
    }
    const last = changes.at(-1);
    if (more < 0 && last !== undefined) changes[changes.length - 1] = [last[0], last[1] + more];
  });
  return changes;
}
