import type { Completion } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type { GenerationRequest } from '../engine/generation-request.ts';

/** The number of tokens of prompts and of what was generated, in OpenAI's names. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

export function usageOf(
  engine: Engine,
  requests: readonly Pick<GenerationRequest, 'prompt'>[],
  generated: number | readonly Completion[],
): Usage {
  const prompt_tokens = requests.reduce((sum, { prompt }) => sum + lengthOf(engine, prompt), 0);
  const completion_tokens =
    typeof generated === 'number'
      ? generated
      : generated.reduce((sum, { tokens }) => sum + tokens.length, 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function lengthOf({ tokenizer }: Engine, prompt: string | readonly number[]): number {
  if (typeof prompt !== 'string') return prompt.length;
  return tokenizer?.encode(prompt).inputIds.length ?? 0;
}
