import {
  checkOptions,
  ConfigError,
  DataError,
  ndArray,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { Offsets } from '../tokenizer/aligned-text.ts';
import { idsArray, type TokenRows } from './token-rows.ts';
import type { PlacingTokenizer } from './word-labels.ts';

/** A question, and the text in which its answer is looked for. */
export interface Question {
  readonly question: string;
  readonly context: string;
  /**
   * The answer, and where it begins in the context, in UTF-16 units. Null: the context has no answer. Undefined: it is to
   * be found, and samples have no positions.
   */
  readonly answer?: { readonly text: string; readonly start: number } | null | undefined;
}

/** Options of `questionAnsweringSamples`. */
export interface QuestionAnsweringOptions {
  /** The most tokens of a sample, special ones included. A longer context is divided. Default: any number. */
  readonly maxLength?: number;
  /** The number of tokens that a sample has in common with the one before it. Default: 128. */
  readonly stride?: number;
}

/** A question with a part of its context. */
export interface QuestionAnsweringSample {
  /** Shape: inputIds, tokenTypeIds [t], startPositions, endPositions []. */
  readonly rows: TokenRows;
  /** Where each token is in the context. Undefined for tokens that are not of the context. */
  readonly offsets: readonly (Offsets | undefined)[];
}

const rules: OptionRules<QuestionAnsweringOptions> = {
  maxLength: option.integer(1),
  stride: option.count,
};

/**
 * The tokens of a question and of its context, for a model that marks an answer in the context
 * (`BertForQuestionAnswering`). A context that is too long becomes several samples, which overlap. The first and the last
 * token of the answer are positions in the sample; a sample that does not have all of the answer has 0 for both, the
 * place of [CLS]. It is the usual preprocessing of transformers (`truncation="only_second"`, `return_overflowing_tokens`).
 * Throws DataError for an answer that is not where it should be, and ConfigError if `maxLength` has no room for more
 * than the question and `stride`.
 */
export function questionAnsweringSamples(
  tokenizer: PlacingTokenizer,
  { question, context, answer }: Question,
  options: QuestionAnsweringOptions = {},
): readonly QuestionAnsweringSample[] {
  checkOptions('questionAnsweringSamples', options, rules);
  const { maxLength, stride = 128 } = options;
  const { inputIds, tokenTypeIds, offsetMapping, sequenceIds } = tokenizer.encode(question, {
    pair: context,
    returnOffsetsMapping: true,
  });
  const tokens = inputIds.map((id, i) => ({
    id,
    type: tokenTypeIds[i] ?? 0,
    offsets: sequenceIds?.[i] === 1 ? offsetMapping?.[i] : undefined,
  }));
  const first = Math.max(0, sequenceIds?.indexOf(1) ?? 0);
  const end = (sequenceIds?.lastIndexOf(1) ?? -1) + 1;
  const inContext = tokens.slice(first, end);
  const span = answer === undefined ? undefined : spanOf(inContext, context, answer);
  const room = (maxLength ?? Infinity) - (tokens.length - inContext.length);
  if (inContext.length > room && room <= stride) throw noRoom(maxLength, room, stride);
  return windowsOf(inContext.length, room, stride).map(([from, to]) => {
    const row = [...tokens.slice(0, first), ...tokens.slice(first + from, first + to)];
    row.push(...tokens.slice(first + inContext.length));
    const isInside = span !== undefined && span !== null && from <= span[0] && span[1] < to;
    const [startPosition, endPosition] = isInside
      ? [first + span[0] - from, first + span[1] - from]
      : [0, 0];
    const positions = {
      startPositions: ndArray(Int32Array.of(startPosition), []),
      endPositions: ndArray(Int32Array.of(endPosition), []),
    };
    return {
      rows: {
        inputIds: idsArray(row.map(({ id }) => id)),
        tokenTypeIds: idsArray(row.map(({ type }) => type)),
        ...(span === undefined ? {} : positions),
      },
      offsets: row.map(({ offsets }) => offsets),
    };
  });
}

/** The parts of `length` tokens that have at most `room`, each beginning with `stride` tokens of the one before it. */
function windowsOf(length: number, room: number, stride: number): readonly Offsets[] {
  const windows: Offsets[] = [];
  for (let from = 0; ; from += room - stride) {
    const to = Math.min(length, from + room);
    windows.push([from, to]);
    if (to === length) return windows;
  }
}

/**
 * The first and the last token of an answer. A character may have several tokens, of which the first and the last are
 * taken. Null for no answer.
 */
function spanOf(
  tokens: readonly { readonly offsets: Offsets | undefined }[],
  context: string,
  answer: NonNullable<Question['answer']> | null,
): Offsets | null {
  if (answer === null) return null;
  const { text, start } = answer;
  const found = context.slice(start, start + text.length);
  if (found !== text) throw elsewhere(text, start, found);
  const first = tokens.findIndex(({ offsets }) => offsets !== undefined && offsets[1] > start);
  const last = tokens.findLastIndex(
    ({ offsets }) => offsets !== undefined && offsets[0] < start + text.length,
  );
  if (first < 0 || last < first) throw noTokens(text, start);
  return [first, last];
}

function elsewhere(text: string, start: number, found: string): DataError {
  return new DataError(
    {
      asked: `the answer '${text}' at ${start} of its context`,
      found: `'${found}' there`,
      todo: 'Give its place in UTF-16 units. Of a count of characters, as in Python, it is Array.from(context).slice(0, count).join("").length',
    },
    { text, start },
  );
}

function noTokens(text: string, start: number): DataError {
  return new DataError(
    {
      asked: `the tokens of the answer '${text}' at ${start} of its context`,
      found: 'no token that has any of it',
      todo: 'Give an answer of letters, or null if there is none',
    },
    { text, start },
  );
}

function noRoom(maxLength: number | undefined, room: number, stride: number): ConfigError {
  return new ConfigError(
    {
      asked: `samples of a context with maxLength ${maxLength} and stride ${stride}`,
      found: `room for ${room} tokens of the context beside the question`,
      todo: 'Raise maxLength, lower stride, or shorten the question',
    },
    { maxLength, room, stride },
  );
}
