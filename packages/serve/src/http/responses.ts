import { randomUUID } from 'node:crypto';
import { complete } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type {
  FinishReason,
  GeneratedToken,
  GenerationRequest,
} from '../engine/generation-request.ts';
import {
  type AppContext,
  type Call,
  engineOf,
  given,
  reasonOf,
  requestOf,
  seconds,
  streamTo,
} from './app-context.ts';
import { promptOfChat } from './chat-prompt.ts';
import { constraintOfText } from './constraint-of.ts';
import { eventOf } from './event-stream.ts';
import type { ResponseBody } from './request-bodies.ts';
import { usageOf } from './usage.ts';

/** POST /v1/responses, without a memory: each request has the whole conversation. */
export async function responses(context: AppContext, call: Call<ResponseBody>): Promise<Response> {
  const { body } = call;
  const engine = engineOf(context, body.model);
  const request: GenerationRequest = {
    ...requestOf(body, call, context),
    prompt: promptOfChat(engine, messagesOf(body)),
    ...given('maxNewTokens', body.max_output_tokens),
    ...given('constraint', constraintOfText(engine, body)),
  };
  const draft = new ResponseDraft(engine, body, request);
  const tokens = engine.generate(request);
  if (body.stream === true) {
    return streamTo(call, context, eventsOf(draft, tokens));
  }
  const [sample] = await complete(tokens);
  draft.text = sample?.text ?? '';
  draft.count = sample?.tokens.length ?? 0;
  return Response.json(draft.whole(sample?.finishReason ?? 'stop'));
}

function messagesOf({ instructions, input }: ResponseBody): { role: string; content: unknown }[] {
  const own = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  return [
    ...(instructions == null ? [] : [{ role: 'system', content: instructions }]),
    // Templates call it the system, as chat completions do.
    ...own.map(({ role, content }) => ({ role: role === 'developer' ? 'system' : role, content })),
  ];
}

/** A response that is being made. */
class ResponseDraft {
  text = '';
  /** The number of tokens. */
  count = 0;
  readonly itemId = `msg_${randomUUID()}`;
  readonly #engine: Engine;
  readonly #body: ResponseBody;
  readonly #request: GenerationRequest;
  readonly #id = `resp_${randomUUID()}`;
  readonly #created = seconds();

  constructor(engine: Engine, body: ResponseBody, request: GenerationRequest) {
    this.#engine = engine;
    this.#body = body;
    this.#request = request;
  }

  /** The response so far. */
  begun(): object {
    return this.#fields('in_progress', [], null);
  }

  whole(reason: FinishReason): object {
    const isCut = reasonOf(reason) === 'length';
    return {
      ...this.#fields(isCut ? 'incomplete' : 'completed', [this.item('completed')], this.#usage()),
      incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    };
  }

  part(): object {
    return { type: 'output_text', text: this.text, annotations: [], logprobs: [] };
  }

  item(status: 'in_progress' | 'completed'): object {
    const content = status === 'completed' ? [this.part()] : [];
    return { id: this.itemId, type: 'message', role: 'assistant', status, content };
  }

  #usage(): object {
    const usage = usageOf(this.#engine, [this.#request], this.count);
    return {
      input_tokens: usage.prompt_tokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: usage.completion_tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.total_tokens,
    };
  }

  #fields(status: string, output: readonly object[], usage: object | null): object {
    const { model, instructions = null, max_output_tokens = null, temperature, top_p } = this.#body;
    return {
      id: this.#id,
      object: 'response',
      created_at: this.#created,
      status,
      error: null,
      incomplete_details: null,
      instructions,
      max_output_tokens,
      model,
      output,
      parallel_tool_calls: false,
      temperature: temperature ?? 1,
      text: { format: this.#body.text?.format ?? { type: 'text' } },
      tool_choice: 'none',
      tools: [],
      top_p: top_p ?? 1,
      metadata: this.#body.metadata ?? {},
      usage,
    };
  }
}

async function* eventsOf(
  draft: ResponseDraft,
  tokens: AsyncIterable<GeneratedToken>,
): AsyncGenerator<string, void, void> {
  let number = 0;
  const event = (type: string, fields: object): string =>
    eventOf({ type, sequence_number: number++, ...fields }, type);
  const place = { item_id: draft.itemId, output_index: 0, content_index: 0 };
  yield event('response.created', { response: draft.begun() });
  yield event('response.in_progress', { response: draft.begun() });
  yield event('response.output_item.added', { output_index: 0, item: draft.item('in_progress') });
  yield event('response.content_part.added', { ...place, part: draft.part() });
  let reason: FinishReason = 'stop';
  for await (const { text, token, finishReason } of tokens) {
    draft.count += Number(token !== null);
    draft.text += text;
    reason = finishReason ?? reason;
    if (text !== '') {
      yield event('response.output_text.delta', { ...place, delta: text, logprobs: [] });
    }
  }
  yield event('response.output_text.done', { ...place, text: draft.text, logprobs: [] });
  yield event('response.content_part.done', { ...place, part: draft.part() });
  yield event('response.output_item.done', { output_index: 0, item: draft.item('completed') });
  const isCut = reasonOf(reason) === 'length';
  yield event(`response.${isCut ? 'incomplete' : 'completed'}`, { response: draft.whole(reason) });
}
