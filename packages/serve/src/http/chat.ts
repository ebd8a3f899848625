import { randomUUID } from 'node:crypto';
import type { ChatMessage } from '@shardwise/data';
import { complete, type Completion } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type { GeneratedToken, GenerationRequest } from '../engine/generation-request.ts';
import type { TokenProbability } from '../sampling/log-probabilities.ts';
import { ApiError } from './api-error.ts';
import {
  type AppContext,
  type Call,
  engineOf,
  given,
  reasonOf,
  requestOf,
  seconds,
} from './app-context.ts';
import { constraintOf } from './constraint-of.ts';
import { eventOf, eventStream } from './event-stream.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { ChatBody } from './request-bodies.ts';
import { usageOf } from './usage.ts';

/** POST /v1/chat/completions. */
export async function chatCompletions(
  context: AppContext,
  call: Call<ChatBody>,
): Promise<Response> {
  const { body } = call;
  const engine = engineOf(context, body.model);
  const prompt = promptOfChat(engine, body.messages, {
    ...(body.tool_choice === 'none' ? {} : given('tools', body.tools)),
    ...given('variables', body.chat_template_kwargs),
  });
  const maxNewTokens = body.max_completion_tokens ?? body.max_tokens;
  const constraint = constraintOf(engine, body);
  const request: GenerationRequest = {
    ...requestOf(body, call, context),
    prompt,
    ...given('maxNewTokens', maxNewTokens),
    ...given('constraint', constraint),
    ...(body.logprobs === true ? { logProbabilities: body.top_logprobs ?? 0 } : {}),
  };
  const id = `chatcmpl-${randomUUID()}`;
  const head = { id, created: seconds(), model: body.model };
  const tokens = engine.generate(request);
  if (body.stream === true) {
    const events = eventsOf(engine, body, request, tokens, head);
    const { stalledMs } = context.limits;
    return eventStream(events, { stalledMs, onCancel: () => call.abort.abort() });
  }
  const samples = await complete(tokens);
  const choices = samples.map((sample) => ({
    index: sample.sample,
    message: { role: 'assistant', content: sample.text, refusal: null },
    logprobs: body.logprobs === true ? logProbabilitiesOf(engine, sample) : null,
    finish_reason: reasonOf(sample.finishReason),
  }));
  const usage = usageOf(engine, [request], samples);
  const object = 'chat.completion';
  return Response.json({ ...head, object, ...fingerprintOf(engine), choices, usage });
}

/** The tokens that a chat model reads for messages. Throws ApiError 400 for a model without a template. */
export function promptOfChat(
  { tokenizer }: Engine,
  messages: readonly { readonly role: string; readonly content?: unknown }[],
  options: {
    readonly tools?: readonly object[];
    readonly variables?: Record<string, unknown>;
  } = {},
): readonly number[] {
  if (tokenizer === null) throw new ApiError(400, 'The model has no tokenizer: send tokens.');
  const plain = messages.map(({ content, ...fields }): ChatMessage => ({
    ...fields,
    content: textOf(content),
  }));
  const text = tokenizer.applyChatTemplate(plain, { addGenerationPrompt: true, ...options });
  return tokenizer.encode(text, { addSpecialTokens: false }).inputIds;
}

/** Most templates only know contents that are texts. */
function textOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part: { readonly text?: string }) => part.text ?? '').join('');
}

async function* eventsOf(
  engine: Engine,
  body: ChatBody,
  request: GenerationRequest,
  tokens: AsyncIterable<GeneratedToken>,
  head: object,
): AsyncGenerator<string, void, void> {
  const object = 'chat.completion.chunk';
  const chunk = (choices: readonly object[], rest: object = {}): string =>
    eventOf({ ...head, object, ...fingerprintOf(engine), choices, ...rest });
  for (let index = 0; index < (body.n ?? 1); index++) {
    const delta = { role: 'assistant', content: '' };
    yield chunk([{ index, delta, logprobs: null, finish_reason: null }]);
  }
  let count = 0;
  for await (const token of tokens) {
    count += Number(token.token !== null);
    const isSilent = token.text === '' && body.logprobs !== true;
    if (isSilent && token.finishReason === null) continue;
    const logprobs = body.logprobs === true ? logProbabilitiesOf(engine, listsOf(token)) : null;
    const delta = token.text === '' ? {} : { content: token.text };
    const finish_reason = reasonOf(token.finishReason);
    yield chunk([{ index: token.sample, delta, logprobs, finish_reason }]);
  }
  if (body.stream_options?.include_usage === true) {
    yield chunk([], { usage: usageOf(engine, [request], count) });
  }
  yield eventOf('[DONE]');
}

type LogProbabilities = Pick<Completion, 'tokens' | 'logProbabilities' | 'likely'>;

function listsOf({ token, logProbability, likely }: GeneratedToken): LogProbabilities {
  if (token === null) return { tokens: [], logProbabilities: [], likely: [] };
  return { tokens: [token], logProbabilities: [logProbability ?? 0], likely: [likely] };
}

function logProbabilitiesOf(
  { tokenizer }: Engine,
  { tokens, logProbabilities, likely }: LogProbabilities,
): object {
  const entry = ({ token, logProbability }: TokenProbability): object => {
    const text = tokenizer?.decode([token]) ?? '';
    return { token: text, logprob: logProbability, bytes: [...new TextEncoder().encode(text)] };
  };
  const content = tokens.map((token, at) => ({
    ...entry({ token, logProbability: logProbabilities[at] ?? 0 }),
    top_logprobs: likely[at]?.map(entry) ?? [],
  }));
  return { content, refusal: null };
}
