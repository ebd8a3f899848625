import type { IncomingMessage } from 'node:http';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { ApiError, apiErrorOf, closingError } from '../http/api-error.ts';
import { ApiKeys } from '../http/api-keys.ts';
import { eventOf } from '../http/event-stream.ts';
import type { OpenAIApp } from '../http/openai-app.ts';
import { pagePaths } from '../http/page/page-routes.ts';
import { readBytes } from '../http/read-body.ts';
import { forward, type ForwardedRequest, wholeBody } from './forward.ts';
import { joinedMetrics } from './joined-metrics.ts';
import { type BegunRequest, type Replica, ReplicaLoads } from './replica-loads.ts';
import { estimateOf, nothingAsked, type RequestEstimate } from './request-estimate.ts';

/** Options of `replicaApp`. */
export interface ReplicaAppOptions {
  /** They are looked at for each request, so their addresses may change. */
  readonly replicas: readonly Replica[];
  /** The keys of which a request must have one. Default: none is asked for. */
  readonly apiKeys?: readonly string[];
  /**
   * What becomes of a request whose server is lost: `error` answers it with status 502, and `retry` has another server
   * begin anew, as long as nothing of the answer has been sent. A stream that has begun ends with an event that says it.
   * Default: `error`.
   */
  readonly onRankFailure?: 'error' | 'retry';
  /** The most bytes of a body. Default: 1 MiB. */
  readonly maxBodyBytes?: number;
}

const replicaRules: OptionRules<ReplicaAppOptions> = {
  replicas: option.required(option.listOf(option.object<Replica>('a replica'))),
  apiKeys: option.listOf(option.nonEmptyText),
  onRankFailure: option.oneOf('error', 'retry'),
  maxBodyBytes: option.integer(1),
};

/** The headers of an answer that are the business of a connection, and not of the answer. */
const OF_CONNECTION = new Set(['connection', 'keep-alive', 'transfer-encoding', 'date']);

/** An application that passes requests on. */
export interface ReplicaApp extends OpenAIApp {
  /** The number of requests that are being answered. */
  readonly open: number;
}

/** Who asks for what, and who may answer. */
interface Asked {
  readonly estimate: RequestEstimate;
  readonly tenant: string;
  readonly among: readonly Replica[];
}

/**
 * Divides requests between servers of the same model: each goes to the one with the fewest tokens outstanding, which are
 * estimated by the length of the body and by the tokens that it asks for. Tokens of a prompt that a server was given before,
 * and that its cache should have, do not count. `/metrics` has the figures of all, and `/state` those of the first one.
 */
export function replicaApp(options: ReplicaAppOptions): ReplicaApp {
  checkOptions('replicaApp', options, replicaRules);
  const { replicas, apiKeys = [], onRankFailure = 'error', maxBodyBytes = 2 ** 20 } = options;
  const keys = new ApiKeys(apiKeys);
  const loads = new ReplicaLoads(replicas);
  let isClosing = false;
  let open = 0;

  /** Chooses who answers a request, and counts it. Throws ApiError 503 if none listens. */
  const begin = ({ estimate, tenant, among }: Asked, lost: ReadonlySet<string>): BegunRequest => {
    const begun = loads.begin(estimate, { tenant, among, lost });
    if (begun === null) throw noRank();
    open++;
    return {
      ...begun,
      end: () => {
        open--;
        begun.end();
      },
    };
  };

  /** Passes a request on. A whole answer is read to its end first, so that another rank can begin anew if it is cut off. */
  const pass = async (request: ForwardedRequest, asked: Asked): Promise<Response> => {
    const lost = new Set<string>();
    for (;;) {
      const { replica, url, end } = begin(asked, lost);
      let isSent = false;
      try {
        const answer = await forward(url, request);
        const isStream = String(answer.headers['content-type']).startsWith('text/event-stream');
        if (!isStream) return responseOf(answer, await wholeBody(answer));
        const stream = await streamOf(answer, end);
        isSent = true;
        return responseOf(answer, stream);
      } catch (error) {
        if (request.signal.aborted) throw error;
        lost.add(url);
        loads.forget(replica);
        // What could not be connected to has begun nothing.
        if (onRankFailure === 'error' && !isRefused(error)) throw rankLost();
      } finally {
        if (!isSent) end();
      }
    }
  };

  const metrics = async (request: ForwardedRequest): Promise<Response> => {
    const texts = new Map<number, string>();
    for (const [index, replica] of replicas.entries()) {
      if (replica.url === null) continue;
      const text = await forward(replica.url, request)
        .then(wholeBody)
        .catch(() => null);
      if (text === null) continue;
      texts.set(
        index,
        `${new TextDecoder().decode(text)}\n${expectedText(loads.expectedOf(replica))}`,
      );
    }
    return new Response(joinedMetrics(texts), {
      headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' },
    });
  };

  const answer = async (request: Request): Promise<Response> => {
    const { pathname, search } = new URL(request.url);
    const listening = replicas.filter(({ url }) => url !== null).length;
    if (pathname === '/health') {
      const status = isClosing ? 'closing' : listening === 0 ? 'starting' : 'ok';
      const body = { status, replicas: replicas.length, listening };
      return Response.json(body, { status: status === 'ok' ? 200 : 503 });
    }
    const isPage = request.method === 'GET' && pagePaths.includes(pathname);
    const tenant = isPage ? '' : keys.tenantOf(request.headers.get('authorization') ?? undefined);
    if (isClosing && request.method !== 'GET') throw closingError();
    const body = request.method === 'POST' ? await readBytes(request, maxBodyBytes) : null;
    const forwarded = {
      method: request.method,
      path: `${pathname}${search}`,
      headers: headersOf(request, body),
      body,
      signal: request.signal,
    };
    if (pathname === '/metrics' && request.method === 'GET') return metrics(forwarded);
    // The page draws one cache, and not one after the other.
    const isState = pathname === '/state';
    const among = isState ? replicas.filter(({ url }) => url !== null).slice(0, 1) : replicas;
    const estimate = body === null ? nothingAsked : estimateOf(pathname, body);
    return pass(forwarded, { estimate, tenant, among });
  };

  return {
    needsKey: apiKeys.length > 0,
    get open() {
      return open;
    },
    fetch: (request) => answer(request).catch((error: unknown) => apiErrorOf(error).response()),
    close: () => {
      isClosing = true;
    },
  };
}

/** What a replica reads of a request. By `sec-fetch-site` it refuses the pages of other addresses. */
const keptHeaders = ['authorization', 'content-type', 'accept', 'sec-fetch-site'];

function headersOf(request: Request, body: Uint8Array | null): Record<string, string> {
  const kept = keptHeaders.flatMap((name) => {
    const value = request.headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  const length = body === null ? [] : [['content-length', String(body.byteLength)] as const];
  return Object.fromEntries([...kept, ...length]);
}

function responseOf(answer: IncomingMessage, body: BodyInit): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(answer.headers)) {
    if (value !== undefined && !OF_CONNECTION.has(name)) headers.set(name, String(value));
  }
  return new Response(body, { status: answer.statusCode ?? 502, headers });
}

/**
 * The events of an answer as they come, when the first of them has come. Rejects if the answer is cut off before. Later, an
 * error is the last event, because the status has been sent.
 */
async function streamOf(
  answer: IncomingMessage,
  onEnd: () => void,
): Promise<ReadableStream<Uint8Array>> {
  const events = eventsOf(answer);
  const first = await events.next();
  let next: typeof first | null = first;
  let isOver = false;
  // A client that leaves while a part is awaited cancels the stream, and then ends the wait, too.
  const endOnce = (): void => {
    if (!isOver) onEnd();
    isOver = true;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = next ?? (await events.next());
        next = null;
        if (done !== true) return controller.enqueue(value);
      } catch {
        if (isOver) return;
        controller.enqueue(new TextEncoder().encode(eventOf(rankLost().body())));
      }
      endOnce();
      controller.close();
    },
    cancel() {
      endOnce();
      answer.destroy();
    },
  });
}

/** Whole events, so that another one can follow where the answer is cut off within one. */
async function* eventsOf(answer: AsyncIterable<unknown>): AsyncGenerator<Uint8Array, void, void> {
  let rest = Buffer.alloc(0);
  for await (const part of answer) {
    if (!(part instanceof Uint8Array)) continue;
    const all = Buffer.concat([rest, part]);
    const end = Math.max(...['\n\n', '\r\n\r\n'].map((mark) => endOfLast(all, mark)));
    rest = all.subarray(end);
    if (end > 0) yield all.subarray(0, end);
  }
  if (rest.length > 0) yield rest;
}

/** Where the last one of some marks ends. 0 if there is none. */
function endOfLast(bytes: Buffer, mark: string): number {
  const at = bytes.lastIndexOf(mark);
  return at < 0 ? 0 : at + mark.length;
}

function isRefused(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED';
}

/** The figure of a replica that it does not know itself. */
function expectedText(expected: number): string {
  const name = 'shardwise:expected_prefix_tokens_total';
  return [
    `# HELP ${name} Estimated tokens of prompts that the cache was expected to have.`,
    `# TYPE ${name} counter`,
    `${name} ${expected}\n`,
  ].join('\n');
}

function noRank(): ApiError {
  return new ApiError(503, 'No rank answers at the moment. Try again later.', {
    type: 'server_error',
    code: 'no_rank',
    headers: { 'retry-after': '1' },
  });
}

function rankLost(): ApiError {
  return new ApiError(502, 'The rank that answered was lost. Send the request again.', {
    type: 'server_error',
    code: 'rank_lost',
  });
}
