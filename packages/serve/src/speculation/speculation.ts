import {
  checkOptions,
  ConfigError,
  describeValue,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { type GeneratingModel, modelFacts, type ModelFacts } from '@shardwise/models';
import type { PagedCacheOptions } from '../cache/paged-cache.ts';
import { DraftModel } from './draft-model.ts';
import { type NgramLengths, PromptLookup } from './prompt-lookup.ts';
import type { Proposer } from './proposer.ts';

/** Proposes what followed the same tokens earlier in the prompt or in the text. */
export interface NgramSpeculation {
  readonly method: 'ngram';
  /** The most tokens that are proposed for a sequence in a step. Default: 4. */
  readonly tokens?: number;
  /** How many last tokens are looked for, at most. Default: 4. The name is vLLM's. */
  readonly promptLookupMax?: number;
  /** How many last tokens are looked for, at least. Default: 2. The name is vLLM's. */
  readonly promptLookupMin?: number;
}

/** Proposes what a smaller model with the same tokens would choose. */
export interface DraftSpeculation {
  readonly method: 'draft';
  readonly model: GeneratingModel;
  /** The most tokens that are proposed for a sequence in a step. Default: 4. */
  readonly tokens?: number;
}

/**
 * How tokens are proposed, of which a step then computes several for a sequence (speculative decoding, Leviathan et al.
 * 2023). Texts and log-probabilities are those that there are without it.
 */
export type Speculation = NgramSpeculation | DraftSpeculation;

/** A step computes all that is proposed, so more would only take time. */
const tokens = option.integer(1, 64);

const ngramRules: OptionRules<NgramSpeculation> = {
  method: option.required(option.oneOf('ngram')),
  tokens,
  promptLookupMax: option.integer(1),
  promptLookupMin: option.integer(1),
};

const draftRules: OptionRules<DraftSpeculation> = {
  method: option.required(option.oneOf('draft')),
  model: option.required(option.object<GeneratingModel>('a language model')),
  tokens,
};

/** Throws ConfigError for settings that are out of range. */
export function checkSpeculation(speculation: Speculation): void {
  const { method }: { readonly method: unknown } = speculation;
  if (method !== 'ngram' && method !== 'draft') {
    throw refused(`method: ${describeValue(method)}`, 'no such method', 'Write ngram or draft');
  }
  if (speculation.method === 'draft') {
    checkOptions('speculation', speculation, draftRules);
    return;
  }
  checkOptions('speculation', speculation, ngramRules);
  const { most, least } = ngramLengths(speculation);
  if (least > most) {
    throw refused(
      `promptLookupMin: ${least}`,
      `promptLookupMax: ${most}, which is less`,
      'Give a promptLookupMin of at most promptLookupMax',
    );
  }
}

/** How many tokens a step computes at most for a sequence that goes on. */
export function tokensOfStep(speculation: Speculation | undefined): number {
  return speculation === undefined ? 1 : 1 + tokensOf(speculation);
}

/**
 * Makes what proposes tokens. Throws ConfigError for a draft model with other tokens than the model has, with fewer
 * positions, and for one of which ranks have parts.
 */
export function proposerOf(
  speculation: Speculation,
  facts: ModelFacts,
  cache: PagedCacheOptions,
): Proposer {
  if (speculation.method === 'ngram') {
    return new PromptLookup(tokensOf(speculation), ngramLengths(speculation));
  }
  const { model } = speculation;
  const own = modelFacts(model);
  checkDraft(own, facts);
  return new DraftModel(model, own, tokensOf(speculation), cache);
}

function checkDraft(draft: ModelFacts, { vocabSize, contextLength }: ModelFacts): void {
  const asked = `a draft model ${draft.module.architecture}`;
  if (draft.sharedAxes.length > 0) {
    throw refused(
      asked,
      `a model of which the ranks of ${draft.sharedAxes.join(', ')} have parts`,
      'Give each rank a whole draft model',
    );
  }
  if (draft.vocabSize !== vocabSize) {
    throw refused(
      asked,
      `${draft.vocabSize} tokens, where the model has ${vocabSize}`,
      'Give a draft model with the same tokenizer',
    );
  }
  if (draft.contextLength < contextLength) {
    throw refused(
      asked,
      `${draft.contextLength} positions, where the model has ${contextLength}`,
      'Give a draft model with at least as many positions',
    );
  }
}

function tokensOf({ tokens: count = 4 }: Speculation): number {
  return count;
}

function ngramLengths({ promptLookupMax, promptLookupMin }: NgramSpeculation): NgramLengths {
  const most = promptLookupMax ?? Math.max(4, promptLookupMin ?? 0);
  return { most, least: promptLookupMin ?? Math.min(2, most) };
}

function refused(asked: string, found: string, todo: string): ConfigError {
  return new ConfigError({ asked: `speculation with ${asked}`, found, todo });
}
