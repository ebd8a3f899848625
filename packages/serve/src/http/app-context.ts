import type { GenerationRequest } from '../engine/generation-request.ts';
import type { Engine } from '../engine/engine.ts';
import { ApiError } from './api-error.ts';
import { eventStream } from './event-stream.ts';
import type { SamplingFields } from './request-bodies.ts';
import type { ServedModel } from './served-model.ts';

/** The limits of a server. */
export interface ServerLimits {
  /** The most bytes of a body. */
  readonly maxBodyBytes: number;
  /** The most requests that wait. Others are refused with 429. */
  readonly maxWaiting: number;
  /** The most texts of one request. */
  readonly maxSamples: number;
  /** The longest time of a request. */
  readonly requestTimeoutMs: number;
  /** A client that reads nothing for so long is cut off. */
  readonly stalledMs: number;
}

/** What the handlers of requests share. */
export interface AppContext {
  readonly models: readonly ServedModel[];
  readonly limits: ServerLimits;
  /** How many requests for embeddings are being answered, or wait. */
  readonly openEmbeddings: { count: number };
  /** Is told of errors that are not the fault of a request. */
  readonly onError: (error: unknown) => void;
}

/** A request whose body has been read, and what its handler needs besides. */
export interface Call<Body> {
  readonly body: Body;
  readonly tenant: string;
  /** Ends what the request has begun. */
  readonly abort: AbortController;
}

export function servedModel({ models }: AppContext, id: string): ServedModel {
  const found = models.find((model) => model.id === id);
  if (found !== undefined) return found;
  throw new ApiError(
    404,
    `There is no model '${id}'. There are: ${models.map((m) => m.id).join(', ')}.`,
    {
      type: 'not_found_error',
      param: 'model',
      code: 'model_not_found',
    },
  );
}

/**
 * The engine of a model, for a request with some prompts. Throws ApiError 404, 400 for a model that generates nothing and
 * for more prompts than may wait, and 429 if too many wait.
 */
export function engineOf(context: AppContext, id: string, prompts = 1): Engine {
  const { engine } = servedModel(context, id);
  if (engine === null) {
    throw new ApiError(400, `The model '${id}' makes embeddings, and no text.`, { param: 'model' });
  }
  const { maxWaiting } = context.limits;
  if (prompts > maxWaiting) {
    const message = `prompt: ${prompts} prompts, and ${maxWaiting} may wait.`;
    throw new ApiError(400, message, { param: 'prompt' });
  }
  requireRoom(engine.statistics.waiting + prompts - 1, context.limits);
  return engine;
}

/** Sends events to the client of a call, which ends with it. */
export function streamTo(
  { abort }: Pick<Call<unknown>, 'abort'>,
  { limits: { stalledMs }, onError }: AppContext,
  events: AsyncGenerator<string, void, void>,
): Response {
  return eventStream(events, { stalledMs, onError, onCancel: () => abort.abort() });
}

/** Throws ApiError 429 if as many requests wait as may. */
export function requireRoom(waiting: number, { maxWaiting }: ServerLimits): void {
  if (waiting < maxWaiting) return;
  throw new ApiError(429, `${waiting} requests wait already. Try again later.`, {
    type: 'rate_limit_error',
    code: 'queue_full',
    headers: { 'retry-after': '1' },
  });
}

/** The fields of a body that say how tokens are chosen, as options of a request. */
export function requestOf(
  body: SamplingFields & { readonly model: string },
  { tenant, abort }: Pick<Call<unknown>, 'tenant' | 'abort'>,
  context: AppContext,
): Omit<GenerationRequest, 'prompt'> {
  const { limits } = context;
  const samples = body.n ?? 1;
  if (samples > limits.maxSamples) {
    throw new ApiError(400, `n: at most ${limits.maxSamples} texts for a request.`, { param: 'n' });
  }
  const stop = typeof body.stop === 'string' ? [body.stop] : body.stop;
  // -1 and 0 mean all tokens, as in vLLM.
  const topK = (body.top_k ?? 0) > 0 ? body.top_k : null;
  // Without draws, these have no effect. Clients send them with a temperature of 0 all the same.
  const isBeams = body.use_beam_search === true && samples > 1;
  const draws = (body.temperature ?? 1) > 0 && !isBeams;
  return {
    ...given('temperature', isBeams ? null : body.temperature),
    ...given('numBeams', isBeams ? samples : null),
    ...given('lengthPenalty', body.length_penalty),
    ...given('topP', draws ? body.top_p : null),
    ...given('topK', draws ? topK : null),
    ...given('minP', draws ? body.min_p : null),
    ...given('repetitionPenalty', body.repetition_penalty),
    ...given('frequencyPenalty', body.frequency_penalty),
    ...given('presencePenalty', body.presence_penalty),
    ...given('seed', body.seed),
    ...given('stop', stop),
    ...given('stopTokenIds', body.stop_token_ids),
    ...given('ignoreEos', body.ignore_eos),
    ...given('priority', body.priority),
    ...given('adapter', servedModel(context, body.model).adapter),
    samples,
    tenant,
    timeoutMs: limits.requestTimeoutMs,
    signal: abort.signal,
  };
}

/** An object with this field, or without fields if there is no value. */
export function given<Key extends string, Value>(
  key: Key,
  value: Value | null | undefined,
): { readonly [K in Key]?: Value } {
  const fields: { [K in Key]?: Value } = {};
  if (value !== null && value !== undefined) fields[key] = value;
  return fields;
}

/** The seconds since 1970. */
export function seconds(): number {
  return Math.floor(Date.now() / 1000);
}

/** `timeout` is no reason of OpenAI's interface. */
export function reasonOf(reason: 'stop' | 'length' | 'timeout' | null): 'stop' | 'length' | null {
  return reason === 'timeout' ? 'length' : reason;
}
