import {
  checkOptions,
  ConfigError,
  DataError,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { Encoding, EncodeOptions } from '../tokenizer/encoding.ts';
import { IGNORED, idsArray, type TokenRows } from './token-rows.ts';

/** Words of a text, and the label of each. */
export interface LabeledWords {
  readonly words: readonly string[];
  /** The number of the class of each word, such as of a name or of a part of speech. */
  readonly labels: readonly number[];
}

/** Options of `tokenClassificationSample`. */
export interface TokenClassificationOptions {
  /** Whether all tokens of a word get its label, and not only the first one. Default: false. */
  readonly labelAllTokens?: boolean;
  /** What stands between two words. Default: a blank. */
  readonly separator?: string;
  /** The most tokens, special ones included. What is more is cut off, with its labels. Default: any number. */
  readonly maxLength?: number;
}

const rules: OptionRules<TokenClassificationOptions> = {
  labelAllTokens: option.flag,
  separator: option.text,
  maxLength: option.integer(1),
};

/** What of a tokenizer is needed for labels of words. A `Tokenizer` has it. */
export interface PlacingTokenizer {
  encode(text: string, options: EncodeOptions): Encoding;
}

/**
 * The tokens of a text with the labels of its words, for a model that classifies tokens. The words are joined to the text
 * that is encoded, so that tokens are those of running text. The first token of a word, or each, has the label of the
 * word; special tokens, other tokens, and what is only a separator have -100. Throws ConfigError if words and labels are
 * not equally many, and DataError if a token belongs to two words. Shape: -> inputIds, labels, tokenTypeIds [t].
 */
export function tokenClassificationSample(
  tokenizer: PlacingTokenizer,
  { words, labels }: LabeledWords,
  options: TokenClassificationOptions = {},
): TokenRows {
  checkOptions('tokenClassificationSample', options, rules);
  const { labelAllTokens = false, separator = ' ', maxLength } = options;
  if (words.length !== labels.length) throw otherCount(words.length, labels.length);
  let end = -separator.length;
  const ends = words.map((word) => (end += separator.length + word.length));
  const encoding = tokenizer.encode(words.join(separator), {
    returnOffsetsMapping: true,
    ...(maxLength === undefined ? {} : { maxLength }),
  });
  let word = 0;
  let labeled = -1;
  const tokenLabels = (encoding.offsetMapping ?? []).map(([from, to], token) => {
    if (encoding.sequenceIds?.[token] === undefined || to <= from) return IGNORED;
    while (word < words.length && (ends[word] ?? 0) <= from) word += 1;
    const start = (ends[word] ?? 0) - (words[word]?.length ?? 0);
    // A token of blanks between words, which some tokenizers have.
    if (word === words.length || to <= start) return IGNORED;
    if (to > (ends[word] ?? 0) + separator.length) throw sharedToken(words.slice(word, word + 2));
    const isFirst = word !== labeled;
    labeled = word;
    return isFirst || labelAllTokens ? (labels[word] ?? IGNORED) : IGNORED;
  });
  return {
    inputIds: idsArray(encoding.inputIds),
    labels: idsArray(tokenLabels),
    tokenTypeIds: idsArray(encoding.tokenTypeIds),
  };
}

function sharedToken(words: readonly string[]): DataError {
  return new DataError(
    {
      asked: `one label for each token of the words '${words.join("' and '")}'`,
      found: 'a token that has parts of both',
      todo: 'Label the words together, or use a tokenizer that divides texts at blanks',
    },
    { words },
  );
}

function otherCount(words: number, labels: number): ConfigError {
  return new ConfigError(
    {
      asked: `labels of ${words} words`,
      found: `${labels} labels`,
      todo: 'Give one label for each word',
    },
    { words, labels },
  );
}
