import { z } from 'zod';

/** About so many bytes of a text are a token. */
const BYTES_PER_TOKEN = 4;
const DEFAULT_NEW_TOKENS = 256;
/** No request counts as more. Sums of such numbers are exact, so that a request leaves nothing behind when it is over. */
const MAX_TOKENS = 2 ** 31;
/** Longer names of models count as none, as the names that keep prefixes apart are kept as they are. */
const MAX_MODEL_NAME = 256;

/** What can be known of a request without the tokenizer of its model. */
export interface RequestEstimate {
  /** About how many tokens it takes: those of its body, and those that it asks for. */
  readonly tokens: number;
  readonly model: string;
  /** Its prompts. Each number is four bytes of the text, in the place of a token. */
  readonly prompts: readonly (readonly number[])[];
}

/** A request without a body. */
export const nothingAsked: RequestEstimate = { tokens: 0, model: '', prompts: [] };

const count = z.int().nonnegative().catch(0);
const list = z.array(z.unknown()).catch([]);
const asked = z.object({
  model: z.string().max(MAX_MODEL_NAME).catch(''),
  max_tokens: count,
  max_completion_tokens: count,
  max_output_tokens: count,
  n: z.int().min(1).catch(1),
  prompt: z.union([z.string(), list]),
  messages: list,
  input: z.union([z.string().transform((content) => [{ role: 'user', content }]), list]),
  instructions: z.unknown().optional(),
  tools: z.unknown().optional(),
});

/** Estimates a request of a path. Its body may be anything: the server that answers it checks it. */
export function estimateOf(path: string, body: Uint8Array): RequestEstimate {
  const ofBody = body.byteLength / BYTES_PER_TOKEN;
  const fields = asked.safeParse(parsed(body));
  if (!fields.success) return { ...nothingAsked, tokens: ofBody };
  const { model, max_tokens, max_completion_tokens, max_output_tokens, n } = fields.data;
  const most = Math.max(max_tokens, max_completion_tokens, max_output_tokens);
  return {
    tokens: ofBody + Math.min(MAX_TOKENS, n * (most === 0 ? DEFAULT_NEW_TOKENS : most)),
    model,
    prompts: promptsOf(path, fields.data).map((prompt) => wordsOf(textOf(prompt))),
  };
}

/** What a model reads of a body, in the order of most templates. Requests of other paths have no prompt that a cache keeps. */
function promptsOf(
  path: string,
  { prompt, messages, input, instructions, tools }: z.infer<typeof asked>,
): readonly unknown[] {
  switch (path) {
    case '/v1/completions': {
      const isOne = typeof prompt === 'string' || typeof prompt[0] === 'number';
      return isOne ? [prompt] : prompt;
    }
    case '/v1/chat/completions':
      return [[tools, ...messages]];
    case '/v1/responses':
      return [[tools, instructions, ...input]];
    default:
      return [];
  }
}

function textOf(prompt: unknown): string {
  try {
    return JSON.stringify(prompt);
  } catch {
    // What is nested too deeply can be read and not written. The server that answers refuses it.
    return '';
  }
}

function wordsOf(text: string): number[] {
  const bytes = new TextEncoder().encode(text);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = Math.floor(bytes.byteLength / BYTES_PER_TOKEN);
  return Array.from({ length }, (_, index) => view.getUint32(index * BYTES_PER_TOKEN));
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
