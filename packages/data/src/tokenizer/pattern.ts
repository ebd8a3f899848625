import { ConfigError } from '@shardwise/core/extend';
import { libraryTokenizer } from './library.ts';
import type { Pattern } from './file-types.ts';

/**
 * Makes a global regular expression of a pattern of a file, which is in Oniguruma's language. Throws ConfigError for one
 * that JavaScript cannot express. The library of tokenizers translates: its blanks are then Unicode's.
 */
export function patternOf(pattern: Pattern): RegExp {
  if ('String' in pattern) return new RegExp(RegExp.escape(pattern.String), 'gu');
  let translated: RegExp | null | undefined;
  try {
    const split = { type: 'Split', pattern, behavior: 'Isolated' };
    translated = libraryTokenizer({ pre_tokenizer: split }).pre_tokenizer?.pattern;
  } catch (cause) {
    throw untranslatable(pattern.Regex, cause);
  }
  if (translated === null || translated === undefined)
    throw untranslatable(pattern.Regex, undefined);
  return translated;
}

function untranslatable(source: string, cause: unknown): ConfigError {
  return new ConfigError(
    {
      asked: `a tokenizer with the regular expression ${source.slice(0, 200)}`,
      found: `one that JavaScript cannot express${cause instanceof Error ? `: ${cause.message}` : ''}`,
      todo: 'Write the pattern of the tokenizer.json without what the message names',
    },
    { source },
    { cause },
  );
}
