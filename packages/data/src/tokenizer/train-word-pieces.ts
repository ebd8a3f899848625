import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { Tokenizer } from './tokenizer.ts';

/** Options of `trainWordPieces`. */
export interface WordPieceOptions {
  /** The most tokens that the vocabulary has, special ones included. */
  readonly vocabularySize: number;
}

const wordPieceRules: OptionRules<WordPieceOptions> = {
  vocabularySize: option.required(option.integer(6)),
};

const SPECIAL = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'] as const;

interface Word {
  pieces: string[];
  readonly count: number;
}

/**
 * Trains a tokenizer as BERT has it, for models that start from nothing. Its vocabulary is the letters of the texts, and the
 * pieces that come of merging the most frequent pairs of pieces (Sennrich et al. 2016), where a piece inside a word begins
 * with ## (Schuster and Nakajima 2012). Words that occur once are left out. The same texts make the same tokenizer. Throws
 * ConfigError for texts in which no word occurs twice.
 */
export function trainWordPieces(texts: Iterable<string>, options: WordPieceOptions): Tokenizer {
  checkOptions('trainWordPieces', options, wordPieceRules);
  const words = wordsOf(texts);
  if (words.length === 0) throw noWords();
  const letters = new Set(words.flatMap(({ pieces }) => pieces));
  const vocabulary = [...SPECIAL, ...[...letters].toSorted()];
  const pairs = new PairCounts(words);
  while (vocabulary.length < options.vocabularySize) {
    const merged = pairs.mergeMostFrequent();
    if (merged === undefined) break;
    if (!letters.has(merged)) vocabulary.push(merged);
    letters.add(merged);
  }
  return Tokenizer.fromJson(tokenizerJson(vocabulary), { config: tokenizerConfig });
}

/** The words of texts in pieces of one letter, as BERT's normalizer and pre-tokenizer make words. */
function wordsOf(texts: Iterable<string>): Word[] {
  const counts = new Map<string, number>();
  for (const text of texts) {
    const plain = text
      .toLowerCase()
      .normalize('NFD')
      .replaceAll(/\p{Mn}/gu, '');
    for (const [word] of plain.matchAll(/[\p{L}\p{N}]+|[\p{P}\p{S}]/gu)) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
  }
  // Rare words would give rare letters, which the model could learn nothing about.
  return [...counts]
    .filter(([, count]) => count > 1)
    .map(([word, count]) => ({
      pieces: Array.from(word, (letter, i) => (i === 0 ? letter : `##${letter}`)),
      count,
    }));
}

/** How often each pair of neighbours occurs, and in which words. */
class PairCounts {
  readonly #counts = new Map<string, number>();
  readonly #words = new Map<string, Set<Word>>();

  constructor(words: readonly Word[]) {
    for (const word of words) this.#count(word, 1);
  }

  /** Merges the most frequent pair in all words. Returns the new piece, or undefined if no pair occurs twice. */
  mergeMostFrequent(): string | undefined {
    let [best, most] = ['', 1];
    for (const [pair, count] of this.#counts) if (count > most) [best, most] = [pair, count];
    if (best === '') return undefined;
    const [first = '', second = ''] = best.split(' ');
    const merged = first + second.slice(2);
    for (const word of this.#words.get(best) ?? []) {
      this.#count(word, -1);
      word.pieces = mergeIn(word.pieces, first, second, merged);
      this.#count(word, 1);
    }
    this.#counts.delete(best);
    this.#words.delete(best);
    return merged;
  }

  #count(word: Word, sign: 1 | -1): void {
    const { pieces, count } = word;
    for (let i = 1; i < pieces.length; i++) {
      const pair = `${pieces[i - 1]} ${pieces[i]}`;
      this.#counts.set(pair, (this.#counts.get(pair) ?? 0) + sign * count);
      const words = this.#words.get(pair) ?? new Set();
      if (sign === 1) words.add(word);
      this.#words.set(pair, words);
    }
  }
}

function mergeIn(
  pieces: readonly string[],
  first: string,
  second: string,
  merged: string,
): string[] {
  const result: string[] = [];
  for (let i = 0; i < pieces.length; i++) {
    const isPair = pieces[i] === first && pieces[i + 1] === second;
    result.push(isPair ? merged : (pieces[i] ?? ''));
    if (isPair) i++;
  }
  return result;
}

function tokenizerJson(vocabulary: readonly string[]): Record<string, unknown> {
  const special = SPECIAL.map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  }));
  const token = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const sequence = (id: string, type: number) => ({ Sequence: { id, type_id: type } });
  const idOf = (content: string) => ({
    id: content,
    ids: [vocabulary.indexOf(content)],
    tokens: [content],
  });
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: special,
    normalizer: {
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [token('[CLS]'), sequence('A', 0), token('[SEP]')],
      pair: [
        token('[CLS]'),
        sequence('A', 0),
        token('[SEP]'),
        sequence('B', 1),
        { SpecialToken: { id: '[SEP]', type_id: 1 } },
      ],
      special_tokens: { '[CLS]': idOf('[CLS]'), '[SEP]': idOf('[SEP]') },
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(vocabulary.map((piece, id) => [piece, id])),
    },
  };
}

const tokenizerConfig = {
  tokenizer_class: 'BertTokenizerFast',
  pad_token: '[PAD]',
  unk_token: '[UNK]',
  cls_token: '[CLS]',
  sep_token: '[SEP]',
  mask_token: '[MASK]',
};

function noWords(): ConfigError {
  return new ConfigError({
    asked: 'a vocabulary of texts',
    found: 'no word that occurs twice in them',
    todo: 'Give more texts',
  });
}
