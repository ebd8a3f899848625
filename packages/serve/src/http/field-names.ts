import type { GenerationRequest } from '../engine/generation-request.ts';

/** The fields of requests that set options of an engine under other names. */
const fieldNames = {
  maxNewTokens: 'max_tokens',
  numBeams: 'use_beam_search',
  lengthPenalty: 'length_penalty',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  repetitionPenalty: 'repetition_penalty',
  frequencyPenalty: 'frequency_penalty',
  presencePenalty: 'presence_penalty',
  stopTokenIds: 'stop_token_ids',
  ignoreEos: 'ignore_eos',
  logProbabilities: 'logprobs',
} as const satisfies Partial<Record<keyof GenerationRequest, string>>;

const options = new RegExp(String.raw`\b(${Object.keys(fieldNames).join('|')})\b`, 'g');

/** A message in which options have the names of the fields that a client knows, and the first of these fields. */
export function inFieldNames(text: string): {
  readonly message: string;
  readonly param: string | undefined;
} {
  const names: Readonly<Record<string, string>> = fieldNames;
  let param: string | undefined;
  const message = text.replaceAll(options, (option) => {
    const name = names[option] ?? option;
    param ??= name;
    return name;
  });
  return { message, param };
}
