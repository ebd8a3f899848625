import {
  checkOptions,
  ConfigError,
  describeValue,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';
import type { Tokenizer } from '@shardwise/data';
import {
  checkSampling,
  type SamplingOptions,
  samplingRules,
} from '../sampling/sampling-options.ts';
import type { TokenConstraint } from '../constraints/token-constraint.ts';
import type { TokenProbability } from '../sampling/log-probabilities.ts';

/** What an engine is asked for. */
export interface GenerationRequest extends SamplingOptions {
  /** A text, which the tokenizer encodes with its special tokens, or tokens. */
  readonly prompt: string | readonly number[];
  /** The most tokens that are added. Default: as many as the context has places, and at most 256. */
  readonly maxNewTokens?: number;
  /** How many texts continue the prompt. They share its part of the cache. Default: 1. */
  readonly samples?: number;
  /**
   * How many beams are searched for the likeliest text, of which the `samples` best ones come, each at its end. Nothing is
   * drawn. Default: 1, which is no beam search. The names of beam search are those of transformers.
   */
  readonly numBeams?: number;
  /** Beam search divides the score of a text by its length to this power. Default: 1. */
  readonly lengthPenalty?: number;
  /** Whether beam search ends as soon as there are `numBeams` texts. Otherwise it ends when none can be better. Default: false. */
  readonly earlyStopping?: boolean;
  /** Texts before which a text ends. They are no part of it. Default: none. */
  readonly stop?: readonly string[];
  /** The tokens that end a text. Default: the eos_token_id of the model's config. */
  readonly stopTokenIds?: readonly number[];
  /** Whether such tokens end nothing. Default: false. */
  readonly ignoreEos?: boolean;
  /**
   * Which tokens may come, such as those of a JSON schema: `engine.constraints.jsonSchema(schema)`. An end token may come
   * where the text may end. Default: all.
   */
  readonly constraint?: TokenConstraint;
  /** Whether each token comes with its log-probability, and with those of this many likely tokens. Default: neither. */
  readonly logProbabilities?: number;
  /** Higher ones come first, with the policy `byPriority`. Default: 0. */
  readonly priority?: number;
  /** Whose request it is. Tenants share no part of the cache with each other. Default: ''. */
  readonly tenant?: string;
  /**
   * The name of the adapter with which the text is made. Requests with different ones share no part of the cache. Default:
   * the model without an adapter.
   */
  readonly adapter?: string;
  /** After how many milliseconds the request ends, complete or not. Default: never. */
  readonly timeoutMs?: number;
  /** Ends the request when it aborts. */
  readonly signal?: AbortSignal;
}

export const requestRules: OptionRules<GenerationRequest> = {
  ...samplingRules,
  prompt: option.required(option.either(option.text, option.listOf(option.count))),
  maxNewTokens: option.integer(1),
  samples: option.integer(1),
  numBeams: option.integer(1),
  lengthPenalty: option.number,
  earlyStopping: option.flag,
  stop: option.listOf(option.nonEmptyText),
  stopTokenIds: option.listOf(option.count),
  ignoreEos: option.flag,
  constraint: option.checkedLater(),
  logProbabilities: option.count,
  priority: option.number,
  tenant: option.text,
  adapter: option.nonEmptyText,
  timeoutMs: option.positive,
  signal: option.instanceOf(AbortSignal),
};

/** Why a text has ended: a stop, the most tokens, or its time limit. */
export type FinishReason = 'stop' | 'length' | 'timeout';

/** A token that was generated, as soon as it is known. */
export interface GeneratedToken {
  /** Which of the samples it belongs to, from 0. */
  readonly sample: number;
  /** Null where a text ends without another token. */
  readonly token: number | null;
  /** The text that is known with it. Empty while a character, or perhaps a stop, is incomplete. */
  readonly text: string;
  /** The logarithm of its probability by the model, before temperature and penalties. Null if it was not asked for. */
  readonly logProbability: number | null;
  /** The most likely tokens in its place. */
  readonly likely: readonly TokenProbability[];
  /** Null if the text goes on. */
  readonly finishReason: FinishReason | null;
  /** How many tokens of the prompt had their keys and values in the cache when the request began. */
  readonly cachedTokens: number;
}

/** A token, for a request that knows what was in the cache. */
export type ChosenToken = Omit<GeneratedToken, 'cachedTokens'>;

/** A request that has been checked. */
export interface CheckedRequest extends GenerationRequest {
  readonly tokens: readonly number[];
  readonly maxNewTokens: number;
}

const MAX_NEW_TOKENS = 256;

/** Throws ConfigError for a request that the model cannot answer. */
export function checkRequest(
  request: GenerationRequest,
  facts: ModelFacts,
  tokenizer: Tokenizer | null,
): CheckedRequest {
  checkOptions('generate', request, requestRules);
  checkSampling(request, facts);
  checkBeams(request);
  const { prompt, stop = [] } = request;
  if (tokenizer === null && (typeof prompt === 'string' || stop.length > 0)) {
    throw refused('texts', 'an engine without a tokenizer', 'Give tokens, or a tokenizer');
  }
  const tokens = typeof prompt === 'string' ? (tokenizer?.encode(prompt).inputIds ?? []) : prompt;
  const { vocabSize, contextLength } = facts;
  if (tokens.length === 0) {
    throw refused('a prompt', `${describeValue(prompt)}, which has no tokens`, 'Begin it with bos');
  }
  const other = tokens.find((token) => token >= vocabSize);
  if (other !== undefined) {
    throw refused('a prompt', `the token ${other}`, `Give tokens from 0 to ${vocabSize - 1}`);
  }
  const places = contextLength - tokens.length;
  const maxNewTokens = request.maxNewTokens ?? Math.min(MAX_NEW_TOKENS, Math.max(1, places));
  if (maxNewTokens <= places) return { ...request, tokens, maxNewTokens };
  throw refused(
    `a prompt of ${tokens.length} tokens and ${maxNewTokens} new ones`,
    `a model with ${contextLength} positions`,
    places > 0 ? `Give maxNewTokens of at most ${places}` : 'Give the end of the prompt only',
    { promptTokens: tokens.length, maxNewTokens, contextLength },
  );
}

/** What has no meaning for beams, which are chosen by the sums of their log-probabilities alone. */
const otherThanBeams = [
  'topK',
  'topP',
  'minP',
  'seed',
  'frequencyPenalty',
  'presencePenalty',
  'constraint',
  'logProbabilities',
] as const;

/** Throws ConfigError for options of beams without beams, and for options that beams do not follow. */
function checkBeams(request: GenerationRequest): void {
  const { numBeams = 1, samples = 1, temperature = 0, stop = [] } = request;
  if (numBeams === 1) {
    const own = (['lengthPenalty', 'earlyStopping'] as const).find(
      (key) => request[key] !== undefined,
    );
    if (own === undefined) return;
    throw refused(`${own}: ${request[own]}`, 'no beams', 'Add numBeams: 4, or leave it out');
  }
  const asked = `numBeams: ${numBeams}`;
  if (samples > numBeams) {
    throw refused(asked, `samples: ${samples}, which are more`, 'Ask for at most as many samples');
  }
  const other = otherThanBeams.find((key) => request[key] !== undefined);
  const found =
    temperature > 0 ? `temperature: ${temperature}` : stop.length > 0 ? 'texts in stop' : other;
  if (found === undefined) return;
  throw refused(asked, `${found}, which beams do not follow`, 'Choose one of both');
}

function refused(
  asked: string,
  found: string,
  todo: string,
  fields: Readonly<Record<string, unknown>> = {},
): ConfigError {
  return new ConfigError({ asked: `generate with ${asked}`, found, todo }, fields);
}
