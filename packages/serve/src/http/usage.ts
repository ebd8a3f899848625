import type { Completion } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type { GeneratedToken, GenerationRequest } from '../engine/generation-request.ts';

/** The number of tokens of prompts and of what was generated, in OpenAI's names. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Counts the tokens of some requests while they come. */
export class UsageCount {
  readonly #engine: Engine;
  readonly #requests: readonly Pick<GenerationRequest, 'prompt'>[];
  readonly #cached: number[];
  #generated = 0;

  constructor(engine: Engine, requests: readonly Pick<GenerationRequest, 'prompt'>[]) {
    this.#engine = engine;
    this.#requests = requests;
    this.#cached = requests.map(() => 0);
  }

  /** Counts a token of the request at this place among the requests. */
  add({ token, cachedTokens }: Pick<GeneratedToken, 'token' | 'cachedTokens'>, request = 0): void {
    this.#generated += Number(token !== null);
    this.#cached[request] = cachedTokens;
  }

  /** Counts the whole texts of the request at this place. */
  addAll(samples: readonly Completion[], request = 0): void {
    for (const { tokens, cachedTokens } of samples) {
      this.#generated += tokens.length;
      this.#cached[request] = cachedTokens;
    }
  }

  usage(): Usage {
    const lengths = this.#requests.map(({ prompt }) => lengthOf(this.#engine, prompt));
    const prompt_tokens = sumOf(lengths);
    return {
      prompt_tokens,
      completion_tokens: this.#generated,
      total_tokens: prompt_tokens + this.#generated,
      prompt_tokens_details: { cached_tokens: sumOf(this.#cached) },
    };
  }
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0);
}

function lengthOf({ tokenizer }: Engine, prompt: string | readonly number[]): number {
  if (typeof prompt !== 'string') return prompt.length;
  return tokenizer?.encode(prompt).inputIds.length ?? 0;
}
