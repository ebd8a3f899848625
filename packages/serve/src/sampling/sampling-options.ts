import { ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';

/** How the tokens of a request are chosen. The names are those of vLLM and OpenAI. */
export interface SamplingOptions {
  /** Divides the scores before tokens are drawn. 0 takes the most likely token. Default: 1. */
  readonly temperature?: number;
  /** Draws among the k most likely tokens. Default: all. */
  readonly topK?: number;
  /** Draws among the most likely tokens whose probabilities sum to this number. Default: 1, which is all. */
  readonly topP?: number;
  /** Draws among tokens that are at least this many times as likely as the most likely one. Default: 0. */
  readonly minP?: number;
  /** Above 1, tokens that occurred in the prompt or behind it become less likely (Keskar et al. 2019). Default: 1. */
  readonly repetitionPenalty?: number;
  /** Is subtracted from the score of a token for each time that it was generated. Default: 0. */
  readonly frequencyPenalty?: number;
  /** Is subtracted from the scores of tokens that were generated. Default: 0. */
  readonly presencePenalty?: number;
  /** Makes the draws reproducible. Requests with the same seed get the same text, alone or among others. Default: drawn. */
  readonly seed?: number;
}

export const samplingRules: OptionRules<SamplingOptions> = {
  temperature: option.nonNegative,
  topK: option.integer(1),
  topP: option.fraction,
  minP: option.fraction,
  repetitionPenalty: option.positive,
  frequencyPenalty: option.number,
  presencePenalty: option.number,
  seed: option.integer(Number.MIN_SAFE_INTEGER),
};

/** Throws ConfigError for more tokens than there are, and for settings of draws where nothing is drawn. */
export function checkSampling(options: SamplingOptions, { vocabSize }: ModelFacts): void {
  const { temperature = 1, topK } = options;
  if (topK !== undefined && topK > vocabSize) {
    throw refused('topK', topK, `a vocabulary of ${vocabSize} tokens`, 'Give at most as many');
  }
  if (temperature > 0) return;
  for (const key of ['topK', 'topP', 'minP'] as const) {
    const value = options[key];
    const isAll = value === { topK: undefined, topP: 1, minP: 0 }[key];
    if (value === undefined || isAll) continue;
    throw refused(key, value, 'a temperature of 0, with which nothing is drawn', 'Leave one out');
  }
}

function refused(key: string, value: number, found: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `a request with ${key}: ${value}`, found, todo },
    { [key]: value },
  );
}
