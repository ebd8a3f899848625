import { randomUUID } from 'node:crypto';
import type { Engine } from '../../engine/engine.ts';
import type {
  FinishReason,
  GeneratedToken,
  GenerationRequest,
} from '../../engine/generation-request.ts';
import {
  type AppContext,
  type Call,
  engineOf,
  given,
  reasonOf,
  requestOf,
  seconds,
  streamTo,
} from '../app-context.ts';
import { promptOfChat } from '../chat-prompt.ts';
import { constraintOfText } from '../constraint-of.ts';
import { eventOf } from '../event-stream.ts';
import type { ResponseBody } from '../request-bodies.ts';
import { PartReader } from '../tool-calls/answer-parts.ts';
import { type ChatTools, chatToolsOf, formOf } from '../tool-calls/chat-tools.ts';
import { UsageCount } from '../usage.ts';
import { messagesOf, toolFieldsOf } from './response-input.ts';
import { type ResponseEvent, ResponseOutput } from './response-output.ts';

/** POST /v1/responses, without a memory: each request has the whole conversation. */
export async function responses(context: AppContext, call: Call<ResponseBody>): Promise<Response> {
  const { body } = call;
  const engine = engineOf(context, body.model);
  const tools = chatToolsOf(engine, toolFieldsOf(body));
  const request: GenerationRequest = {
    ...requestOf(body, call, context),
    prompt: promptOfChat(engine, messagesOf(body), given('tools', tools?.tools)),
    ...given('maxNewTokens', body.max_output_tokens),
    ...given('constraint', formOf(tools, constraintOfText(engine, body))),
  };
  const draft = new ResponseDraft(engine, body, request);
  const events = eventsOf(draft, tools, engine.generate(request));
  if (body.stream === true) return streamTo(call, context, numbered(events));
  let last: ResponseEvent | null = null;
  for await (const event of events) last = event;
  return Response.json(last?.['response']);
}

/** A response that is being made. */
class ResponseDraft {
  readonly output = new ResponseOutput();
  readonly count: UsageCount;
  readonly #body: ResponseBody;
  readonly #id = `resp_${randomUUID()}`;
  readonly #created = seconds();

  constructor(engine: Engine, body: ResponseBody, request: GenerationRequest) {
    this.count = new UsageCount(engine, [request]);
    this.#body = body;
  }

  /** The response before its first token. */
  begun(): object {
    return this.#fields('in_progress', null);
  }

  whole(isCut: boolean): object {
    return {
      ...this.#fields(isCut ? 'incomplete' : 'completed', this.#usage()),
      incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    };
  }

  #usage(): object {
    const usage = this.count.usage();
    return {
      input_tokens: usage.prompt_tokens,
      input_tokens_details: usage.prompt_tokens_details,
      output_tokens: usage.completion_tokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: usage.total_tokens,
    };
  }

  #fields(status: string, usage: object | null): object {
    const { model, instructions = null, max_output_tokens = null, temperature, top_p } = this.#body;
    const { tools, tool_choice, parallel_tool_calls } = this.#body;
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
      output: this.output.items,
      parallel_tool_calls: parallel_tool_calls ?? true,
      temperature: temperature ?? 1,
      text: { format: this.#body.text?.format ?? { type: 'text' } },
      tool_choice: tool_choice ?? 'auto',
      tools: tools ?? [],
      top_p: top_p ?? 1,
      metadata: this.#body.metadata ?? {},
      usage,
    };
  }
}

/** The events of a response. The last one has all of it. */
async function* eventsOf(
  draft: ResponseDraft,
  tools: ChatTools | null,
  tokens: AsyncIterable<GeneratedToken>,
): AsyncGenerator<ResponseEvent, void, void> {
  yield { type: 'response.created', response: draft.begun() };
  yield { type: 'response.in_progress', response: draft.begun() };
  const parts = new PartReader(tools);
  let reason: FinishReason = 'stop';
  for await (const token of tokens) {
    const { text, finishReason } = token;
    draft.count.add(token);
    reason = finishReason ?? reason;
    for (const part of parts.push(text, finishReason !== null)) yield* draft.output.add(part);
  }
  const isCut = reasonOf(reason) === 'length';
  yield* draft.output.end(isCut);
  yield { type: `response.${isCut ? 'incomplete' : 'completed'}`, response: draft.whole(isCut) };
}

async function* numbered(events: AsyncIterable<ResponseEvent>): AsyncGenerator<string, void, void> {
  let number = 0;
  for await (const { type, ...fields } of events) {
    yield eventOf({ type, sequence_number: number++, ...fields }, type);
  }
}
