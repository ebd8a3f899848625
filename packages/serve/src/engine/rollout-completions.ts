import {
  checkOptions,
  ConfigError,
  Generator,
  option,
  type OptionRules,
  TensorStateError,
} from '@shardwise/core/extend';
import { complete, type Completion } from './complete.ts';
import type { Engine } from './engine.ts';
import { type GenerationRequest, requestRules } from './generation-request.ts';
import { requireSameRollout, rolloutPart } from './rollout-part.ts';
import { weightsVersion } from './weights-version.ts';

/** How a training has its own model answer prompts. */
export interface RolloutOptions extends Omit<
  GenerationRequest,
  'prompt' | 'samples' | 'priority' | 'tenant' | 'timeoutMs' | 'signal'
> {
  /** From it follow the draws of each completion, whichever rank makes it. Give another one for each rollout. */
  readonly seed: number;
  /** How many completions each prompt gets, which TRL calls a group. Default: 1. */
  readonly numGenerations?: number;
}

/** A completion of a prompt that is to be rewarded. */
export interface RolloutCompletion extends Completion {
  /** The place of its prompt in the list that all ranks gave. */
  readonly promptIndex: number;
  readonly promptTokens: readonly number[];
}

const {
  prompt: _prompt,
  samples: _samples,
  priority: _priority,
  tenant: _tenant,
  timeoutMs: _timeoutMs,
  signal: _signal,
  ...shared
} = requestRules;

const rolloutRules: OptionRules<RolloutOptions> = {
  ...shared,
  seed: option.required(option.integer(Number.MIN_SAFE_INTEGER)),
  numGenerations: option.integer(1),
};

/**
 * Has the model that is being trained answer prompts, with the weights that it has now. All ranks call it with the same
 * prompts and options, and each makes the completions of its part of the prompts: those of a prompt are all on one rank,
 * one behind the other. Which text a prompt gets depends on the weights, the seed and its place in the list, and not on
 * the number of ranks. Each token comes with its log-probability, unless the options say that they are not wanted.
 *
 * Throws ConfigError for prompts that the ranks cannot share evenly and for what the model cannot answer,
 * CollectiveMismatchError if ranks gave different prompts or options, and TensorStateError if the weights change
 * meanwhile, because the log-probabilities of a completion would then be those of several policies.
 *
 *     const completions = await generateRolloutCompletions(engine, prompts, { seed: step, numGenerations: 8 });
 */
export async function generateRolloutCompletions(
  engine: Engine,
  prompts: readonly (string | readonly number[])[],
  options: RolloutOptions,
): Promise<readonly RolloutCompletion[]> {
  checkOptions('generateRolloutCompletions', options, rolloutRules);
  const { seed, numGenerations = 1, constraint, ...request } = options;
  const { module, batchAxes } = engine.facts;
  const { first, count } = rolloutPart(prompts.length, batchAxes);
  await requireSameRollout(JSON.stringify([prompts, seed, numGenerations, request]), batchAxes);
  const version = weightsVersion(module.parameters());
  const drawn = new Generator(seed);
  // Every rank draws for all prompts, so that a prompt's number does not depend on the number of ranks.
  const seeds = prompts.map(() => drawn.random());
  const given = new AbortController();
  const answers = prompts.slice(first, first + count).map(async (prompt, at) => {
    const promptIndex = first + at;
    const promptTokens = tokensOf(prompt, engine);
    const texts = await complete(
      engine.generate({
        logProbabilities: 0,
        ...request,
        ...(constraint === undefined ? {} : { constraint }),
        prompt: promptTokens,
        samples: numGenerations,
        seed: seeds[promptIndex] ?? 0,
        signal: given.signal,
      }),
    );
    return texts.map((text) => ({ ...text, promptIndex, promptTokens }));
  });
  try {
    const all = (await Promise.all(answers)).flat();
    if (weightsVersion(module.parameters()) !== version) throw changedWeights();
    return all;
  } catch (error) {
    given.abort(error);
    await Promise.allSettled(answers);
    throw error;
  }
}

function tokensOf(prompt: string | readonly number[], { tokenizer }: Engine): readonly number[] {
  if (typeof prompt !== 'string') return prompt;
  if (tokenizer !== null) return tokenizer.encode(prompt).inputIds;
  throw new ConfigError({
    asked: 'completions of texts',
    found: 'an engine without a tokenizer',
    todo: 'Give tokens, or a tokenizer',
  });
}

function changedWeights(): TensorStateError {
  return new TensorStateError({
    asked: 'completions with the weights of one moment',
    found: 'weights that changed while the completions were made',
    todo: 'Await the completions before optimizer.step() is called',
  });
}
