import {
  ConfigError,
  describeValue,
  Generator,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { ModelFacts } from './generating-model.ts';

/** Options of `generate` and `streamTokens`. The names and defaults are those of transformers. */
export interface GenerationOptions {
  /** The most tokens that are added to a prompt. */
  readonly maxNewTokens: number;
  /** Whether tokens are drawn by their probabilities. Otherwise the most likely one is taken. Default: false. */
  readonly doSample?: boolean;
  /** Divides the scores before tokens are drawn. Default: 1. */
  readonly temperature?: number;
  /** Draws among the k most likely tokens. Default: all. */
  readonly topK?: number;
  /** Draws among the most likely tokens whose probabilities sum to this number. Default: 1, which is all. */
  readonly topP?: number;
  /** Draws among tokens that are at least this many times as likely as the most likely one. Default: 0. */
  readonly minP?: number;
  /** Above 1, tokens that occurred in the row become less likely (Keskar et al. 2019). Default: 1. */
  readonly repetitionPenalty?: number;
  /** The tokens that end a row. They are part of it. Default: the eos_token_id of the model's config. */
  readonly eosTokenId?: number | readonly number[];
  /** Rows of tokens, or with `decode` texts, after which a row ends. They are part of it. Default: none. */
  readonly stop?: readonly (string | readonly number[])[];
  /** Makes text of new tokens, for texts in `stop`. */
  readonly decode?: (tokens: readonly number[]) => string;
  /** The source of draws. Default: the rank's generator. */
  readonly generator?: Generator;
}

/** Options of `generate`. */
export interface GenerateOptions extends GenerationOptions {
  /** The number of rows that beam search keeps for each prompt. Default: 1, which is no beam search. */
  readonly numBeams?: number;
  /** Beam search divides the score of a row by its length to this power. Default: 1. */
  readonly lengthPenalty?: number;
  /** Whether beam search ends as soon as `numBeams` rows have ended. Otherwise it ends when no other can be better. Default: false. */
  readonly earlyStopping?: boolean;
}

export const streamRules: OptionRules<GenerationOptions> = {
  maxNewTokens: option.required(option.integer(1)),
  doSample: option.flag,
  temperature: option.positive,
  topK: option.integer(1),
  topP: option.fraction,
  minP: option.fraction,
  repetitionPenalty: option.positive,
  eosTokenId: option.either(option.count, option.listOf(option.count)),
  stop: option.listOf(option.either(option.nonEmptyText, option.listOf(option.count))),
  decode: option.callback(),
  generator: option.instanceOf(Generator),
};

export const generateRules: OptionRules<GenerateOptions> = {
  ...streamRules,
  numBeams: option.integer(1),
  lengthPenalty: option.number,
  earlyStopping: option.flag,
};

const ENCODE = 'Give rows of tokens: [tokenizer.encode(text).inputIds]';

/** Throws ConfigError for prompts that the model cannot continue. */
export function checkPrompts(
  prompts: readonly (readonly number[])[],
  maxNewTokens: number,
  { vocabSize, contextLength }: ModelFacts,
): void {
  if (!Array.isArray(prompts)) {
    throw promptError(`${describeValue(prompts)} in the place of rows`, ENCODE);
  }
  if (prompts.length === 0) throw promptError('no prompts', 'Give at least one row of tokens');
  for (const [row, prompt] of prompts.entries()) {
    if (!Array.isArray(prompt)) {
      throw promptError(`row ${row} is ${describeValue(prompt)}`, ENCODE, { row });
    }
    if (prompt.length === 0) {
      throw promptError(`row ${row} has no tokens`, 'Begin it with a token such as bos', { row });
    }
    const other = prompt.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    if (other !== undefined) {
      const todo = `Give numbers of tokens from 0 to ${vocabSize - 1}`;
      throw promptError(`row ${row} has the token ${other}`, todo, { row, token: other });
    }
    const length = prompt.length + maxNewTokens;
    if (length <= contextLength) continue;
    throw promptError(
      `row ${row} has ${prompt.length} tokens, and with ${maxNewTokens} new ones ${length}, where the model has ${contextLength} positions`,
      prompt.length < contextLength
        ? `Give maxNewTokens of at most ${contextLength - prompt.length}`
        : 'Give the end of the prompt only',
      { row, length, contextLength },
    );
  }
}

/** Throws ConfigError for settings of draws that have no effect, or none with this vocabulary. */
export function checkDraws(options: GenerateOptions, { vocabSize }: ModelFacts): void {
  const { doSample = false, topK, numBeams = 1, stop = [], decode } = options;
  if (topK !== undefined && topK > vocabSize) {
    throw optionError('topK', topK, `a vocabulary of ${vocabSize} tokens`, 'Give at most as many');
  }
  if (!doSample) {
    for (const key of ['temperature', 'topK', 'topP', 'minP'] as const) {
      const value = options[key];
      if (value === undefined) continue;
      throw optionError(key, value, 'nothing is drawn', 'Add doSample: true, or leave it out');
    }
  }
  if (doSample && numBeams > 1) {
    throw optionError('numBeams', numBeams, 'doSample: true', 'Choose one of both');
  }
  if (decode === undefined && stop.some((each) => typeof each === 'string')) {
    const todo = 'Add decode: (tokens) => tokenizer.decode(tokens), or give rows of tokens';
    throw optionError('stop', stop.length, 'texts, and no decode', todo);
  }
}

function promptError(
  found: string,
  todo: string,
  fields: Readonly<Record<string, unknown>> = {},
): ConfigError {
  return new ConfigError({ asked: 'generate', found, todo }, fields);
}

function optionError(key: string, value: unknown, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `generate with ${key}: ${String(value)}`, found, todo },
    { [key]: value },
  );
}
