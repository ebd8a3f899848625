import { randomUUID } from 'node:crypto';
import { complete, type Completion } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type { GeneratedToken, GenerationRequest } from '../engine/generation-request.ts';
import type { TokenProbability } from '../sampling/log-probabilities.ts';
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
import { constraintOf } from './constraint-of.ts';
import { eventOf } from './event-stream.ts';
import { fingerprintOf } from './fingerprint.ts';
import type { ChatBody } from './request-bodies.ts';
import { answerOf, AnswerStream } from './tool-calls/answer-parts.ts';
import { type ChatTools, chatToolsOf, formOf } from './tool-calls/chat-tools.ts';
import { UsageCount } from './usage.ts';

/** POST /v1/chat/completions. */
export async function chatCompletions(
  context: AppContext,
  call: Call<ChatBody>,
): Promise<Response> {
  const { body } = call;
  const engine = engineOf(context, body.model);
  const tools = chatToolsOf(engine, body);
  const prompt = promptOfChat(engine, body.messages, {
    ...given('tools', tools?.tools),
    ...given('variables', body.chat_template_kwargs),
  });
  const maxNewTokens = body.max_completion_tokens ?? body.max_tokens;
  const constraint = formOf(tools, constraintOf(engine, body));
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
    const events = eventsOf(engine, body, request, tools, tokens, head);
    return streamTo(call, context, events);
  }
  const samples = await complete(tokens);
  const choices = samples.map((sample) => ({
    index: sample.sample,
    logprobs: body.logprobs === true ? logProbabilitiesOf(engine, sample) : null,
    ...answerOf(tools, sample.text, reasonOf(sample.finishReason)),
  }));
  const count = new UsageCount(engine, [request]);
  count.addAll(samples);
  const rest = { ...fingerprintOf(engine), choices, usage: count.usage() };
  return Response.json({ ...head, object: 'chat.completion', ...rest });
}

async function* eventsOf(
  engine: Engine,
  body: ChatBody,
  request: GenerationRequest,
  tools: ChatTools | null,
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
  const answers = new Map<number, AnswerStream>();
  const count = new UsageCount(engine, [request]);
  for await (const token of tokens) {
    count.add(token);
    const { sample: index, text, finishReason } = token;
    const answer = answers.get(index) ?? new AnswerStream(tools);
    answers.set(index, answer);
    const { delta, finish_reason } = answer.push(text, reasonOf(finishReason));
    const isSilent = Object.keys(delta).length === 0 && body.logprobs !== true;
    if (isSilent && finishReason === null) continue;
    const logprobs = body.logprobs === true ? logProbabilitiesOf(engine, listsOf(token)) : null;
    yield chunk([{ index, delta, logprobs, finish_reason }]);
  }
  if (body.stream_options?.include_usage === true) {
    yield chunk([], { usage: count.usage() });
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
    return { token: text, logprob: logProbability, bytes: tokenizer?.bytesOf(token) ?? null };
  };
  const content = tokens.map((token, at) => ({
    ...entry({ token, logProbability: logProbabilities[at] ?? 0 }),
    top_logprobs: likely[at]?.map(entry) ?? [],
  }));
  return { content, refusal: null };
}
