import { z } from 'zod';

/** About so many bytes of a text are a token. */
const BYTES_PER_TOKEN = 4;
const DEFAULT_NEW_TOKENS = 256;

const count = z.number().nonnegative().catch(0);
const asked = z.object({
  max_tokens: count,
  max_completion_tokens: count,
  max_output_tokens: count,
  n: z.number().min(1).catch(1),
});

/** About how many tokens a request takes. Its body may be anything: the server that answers it checks it. */
export function tokensOfBody(body: Uint8Array): number {
  const prompt = body.byteLength / BYTES_PER_TOKEN;
  const fields = asked.safeParse(parsed(body));
  if (!fields.success) return prompt;
  const { max_tokens, max_completion_tokens, max_output_tokens, n } = fields.data;
  const most = Math.max(max_tokens, max_completion_tokens, max_output_tokens);
  return prompt + n * (most === 0 ? DEFAULT_NEW_TOKENS : most);
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body));
  } catch {
    return null;
  }
}
