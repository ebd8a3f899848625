import { randomUUID } from 'node:crypto';
import { complete, type Completion } from '../engine/complete.ts';
import type { Engine } from '../engine/engine.ts';
import type { GeneratedToken, GenerationRequest } from '../engine/generation-request.ts';
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
import { constraintOf } from './constraint-of.ts';
import { eventOf } from './event-stream.ts';
import { fingerprintOf } from './fingerprint.ts';
import { joinStreams } from './join-streams.ts';
import type { CompletionBody } from './request-bodies.ts';
import { UsageCount } from './usage.ts';

type TokenStream = AsyncGenerator<GeneratedToken, void, void>;

/** POST /v1/completions. */
export async function completions(
  context: AppContext,
  call: Call<CompletionBody>,
): Promise<Response> {
  const { body } = call;
  const prompts = promptsOf(body);
  const engine = engineOf(context, body.model, prompts.length);
  const constraint = constraintOf(engine, body);
  const requests = prompts.map((prompt): GenerationRequest => ({
    ...requestOf(body, call, context),
    prompt,
    maxNewTokens: body.max_tokens ?? 16,
    ...given('constraint', constraint),
    ...given('logProbabilities', body.logprobs),
  }));
  const head = {
    id: `cmpl-${randomUUID()}`,
    object: 'text_completion',
    created: seconds(),
    model: body.model,
  };
  const streams = await beginAll(engine, requests, call.abort);
  if (body.stream === true) {
    const events = eventsOf(engine, body, requests, streams, head);
    return streamTo(call, context, events);
  }
  const all = await Promise.all(streams.map((stream) => complete(stream)));
  const choices = all.flatMap((samples, prompt) =>
    samples.map((sample) => ({
      text: sample.text,
      index: prompt * samples.length + sample.sample,
      logprobs: body.logprobs == null ? null : logProbabilitiesOf(engine, sample),
      finish_reason: reasonOf(sample.finishReason),
    })),
  );
  const count = new UsageCount(engine, requests);
  for (const [request, samples] of all.entries()) count.addAll(samples, request);
  return Response.json({ ...head, ...fingerprintOf(engine), choices, usage: count.usage() });
}

/** Begins all requests, or none if one is wrong. */
async function beginAll(
  engine: Engine,
  requests: readonly GenerationRequest[],
  abort: AbortController,
): Promise<TokenStream[]> {
  const streams: TokenStream[] = [];
  try {
    for (const request of requests) streams.push(engine.generate(request));
  } catch (error) {
    abort.abort();
    await Promise.allSettled(streams.map((stream) => stream.next()));
    throw error;
  }
  return streams;
}

async function* eventsOf(
  engine: Engine,
  body: CompletionBody,
  requests: readonly GenerationRequest[],
  streams: readonly TokenStream[],
  head: object,
): AsyncGenerator<string, void, void> {
  const samples = body.n ?? 1;
  const count = new UsageCount(engine, requests);
  /** For each text, the length of its tokens until now. */
  const lengths = new Map<number, number>();
  for await (const { stream, value } of joinStreams(streams)) {
    count.add(value, stream);
    if (value.text === '' && value.finishReason === null && body.logprobs == null) continue;
    const index = stream * samples + value.sample;
    const offset = lengths.get(index) ?? 0;
    const logprobs =
      body.logprobs == null ? null : logProbabilitiesOf(engine, listsOf(value), offset);
    if (logprobs !== null && value.token !== null) {
      lengths.set(index, offset + textOf(engine, value.token).length);
    }
    const choice = {
      text: value.text,
      index,
      logprobs,
      finish_reason: reasonOf(value.finishReason),
    };
    yield eventOf({ ...head, ...fingerprintOf(engine), choices: [choice] });
  }
  if (body.stream_options?.include_usage === true) {
    yield eventOf({ ...head, choices: [], usage: count.usage() });
  }
  yield eventOf('[DONE]');
}

/** A body has one prompt or several, and each is a text or tokens. */
function promptsOf({ prompt }: CompletionBody): readonly (string | readonly number[])[] {
  if (typeof prompt === 'string') return [prompt];
  const numbers = prompt.filter((each) => typeof each === 'number');
  if (numbers.length > 0) return [numbers];
  return prompt.filter((each) => typeof each !== 'number');
}

function listsOf({ token, logProbability, likely }: GeneratedToken): LogProbabilities {
  if (token === null) return { tokens: [], logProbabilities: [], likely: [] };
  return { tokens: [token], logProbabilities: [logProbability ?? 0], likely: [likely] };
}

type LogProbabilities = Pick<Completion, 'tokens' | 'logProbabilities' | 'likely'>;

interface LogProbabilitiesBody {
  readonly tokens: readonly string[];
  readonly token_logprobs: readonly number[];
  readonly top_logprobs: readonly object[];
  /** Where each token begins in the text. */
  readonly text_offset: readonly number[];
}

/** Tokens with their log-probabilities. The first one begins at the place `first` of the text. */
function logProbabilitiesOf(
  engine: Engine,
  { tokens, logProbabilities, likely }: LogProbabilities,
  first = 0,
): LogProbabilitiesBody {
  const nameOf = (token: number, text = textOf(engine, token)): string =>
    text.includes('\ufffd') ? nameOfBytes(engine.tokenizer?.bytesOf(token) ?? []) : text;
  const texts = tokens.map((token) => textOf(engine, token));
  let offset = first;
  return {
    tokens: tokens.map((token, at) => nameOf(token, texts[at])),
    token_logprobs: logProbabilities,
    top_logprobs: likely.map((each) =>
      Object.fromEntries(each.map(({ token, logProbability }) => [nameOf(token), logProbability])),
    ),
    text_offset: texts.map((text) => {
      const own = offset;
      offset += text.length;
      return own;
    }),
  };
}

function textOf({ tokenizer }: Engine, token: number): string {
  return tokenizer?.decode([token]) ?? String(token);
}

/** How OpenAI's interface names a token that is a part of a character: all of them would be the same text. */
function nameOfBytes(bytes: readonly number[]): string {
  return `bytes:${bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;
}
