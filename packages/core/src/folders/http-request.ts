import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { CheckpointError, ConfigError, ShardwiseError } from '../spec/errors.ts';

/** Options of what reads over HTTP. */
export interface HttpOptions {
  /** Headers of each request, such as `authorization`. A redirect to another origin does not get them. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How often a request is sent again after a failure of the network or the server. Default: 3. */
  readonly retries?: number;
}

const httpRules: OptionRules<HttpOptions> = {
  headers: option.object('headers by name'),
  retries: option.count,
};

/** Sends one request, such as one that it signs. It follows no redirect by which a secret could get to another host. */
export type SendRequest = (url: URL, init: RequestInit) => Promise<Response>;

/** How long a request waits before it is sent again; each further wait is twice as long. */
const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 20_000;
const MAX_REDIRECTS = 5;

/** A failure that may not occur again: of the connection, or of a server that is busy. */
export class TransientFailure extends Error {
  /** How long the server asks to wait. */
  readonly waitMs: number;

  constructor(message: string, waitMs = 0) {
    super(message);
    this.waitMs = waitMs;
  }
}

/** What errors call a URL. Its query is left out, because the signatures of signed URLs are in it. */
export function nameOfUrl(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Parses a URL. Throws ConfigError for another scheme than HTTP's, and for a URL that contains a password. */
export function parseHttpUrl(of: string, text: string | URL): URL {
  const url = URL.canParse(String(text)) ? new URL(text) : undefined;
  const found =
    url === undefined || !/^https?:$/.test(url.protocol)
      ? 'a text that is no such URL'
      : url.username + url.password === ''
        ? undefined
        : `${nameOfUrl(url)} with a name or a password in it`;
  if (url !== undefined && found === undefined) return url;
  throw new ConfigError({
    asked: `${of} with a URL of http or https`,
    found: found ?? '',
    todo: 'Give a URL such as https://example.com/models/small, and secrets as headers',
  });
}

/** Checks options of HTTP, and returns what sends requests with these headers. */
export function httpSender(of: string, options: HttpOptions): SendRequest {
  checkOptions(of, options, httpRules);
  const secret = options.headers ?? {};
  // Pages cannot see where a redirect leads. They follow it only if there is nothing that must stay at its host.
  if (Object.keys(secret).length === 0) return (url, init) => fetch(url, init);
  return async (url, init) => {
    let target = url;
    for (let hops = 0; hops <= MAX_REDIRECTS; hops += 1) {
      const headers = new Headers(init.headers);
      if (target.origin === url.origin) {
        for (const [name, value] of Object.entries(secret)) headers.set(name, value);
      }
      const response = await fetch(target, { ...init, headers, redirect: 'manual' });
      const location = response.headers.get('location');
      if (response.type === 'opaqueredirect') throw redirected(url, 'in a page');
      if (response.status < 300 || response.status > 399 || location === null) return response;
      await response.body?.cancel();
      target = new URL(location, target);
      if (target.protocol !== url.protocol) throw redirected(url, `to ${nameOfUrl(target)}`);
    }
    throw redirected(url, `more than ${MAX_REDIRECTS} times`);
  };
}

/**
 * Does something that may fail for a while: it is tried again after failures of the connection and TransientFailure, with
 * waits that grow. Throws CheckpointError after `retries` further tries.
 */
export async function withRetries<T>(
  asked: string,
  retries: number,
  attempt: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await attempt();
    } catch (error) {
      // What fetch throws if there is no connection, or if it ends early, is a TypeError.
      const isTransient = error instanceof TransientFailure || error instanceof TypeError;
      if (!isTransient || ShardwiseError.isInstance(error)) throw error;
      if (failures > retries) throw gaveUp(asked, reasonOf(error), failures, error);
      const askedMs = error instanceof TransientFailure ? error.waitMs : 0;
      const wait = FIRST_WAIT_MS * 2 ** (failures - 1) * (0.5 + Math.random());
      await new Promise((resolve) => setTimeout(resolve, Math.min(MAX_WAIT_MS, wait + askedMs)));
    }
  }
}

/** Throws TransientFailure for an answer after which the same request may succeed: of a server that is busy or broken. */
export async function requireSettled(response: Response): Promise<void> {
  const { status } = response;
  if (status < 500 && status !== 429 && status !== 408) return;
  await response.body?.cancel();
  const seconds = Number(response.headers.get('retry-after') ?? 0);
  throw new TransientFailure(`status ${status}`, seconds > 0 ? seconds * 1000 : 0);
}

/** Reads an answer of at most `limit` bytes. Throws CheckpointError for a longer one. */
export async function readLimited(
  name: string,
  response: Response,
  limit: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let byteLength = 0;
  for await (const chunk of response.body ?? []) {
    byteLength += chunk.byteLength;
    if (byteLength > limit) {
      throw refused(name, `more than ${limit} bytes`, `Give a file of at most ${limit} bytes`);
    }
    chunks.push(chunk);
  }
  const expected = response.headers.get('content-length');
  const isPlain = response.headers.get('content-encoding') === null;
  if (isPlain && expected !== null && Number(expected) !== byteLength) {
    throw new TransientFailure(`${byteLength} bytes instead of ${expected}`);
  }
  const bytes = new Uint8Array(byteLength);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

/** The error for an answer that no further request would change. */
export function refused(name: string, found: string, todo: string): CheckpointError {
  return new CheckpointError({ asked: `to read ${name}`, found, todo }, { name });
}

function redirected(url: URL, where: string): CheckpointError {
  return refused(
    nameOfUrl(url),
    `a redirect ${where}, and headers that must stay at this host`,
    'Give the URL to which it leads',
  );
}

function gaveUp(asked: string, reason: string, times: number, cause: unknown): CheckpointError {
  return new CheckpointError(
    {
      asked,
      found: `${reason}, ${times} times`,
      todo: 'Check the address and the network, or try again later',
    },
    { times },
    { cause },
  );
}

function reasonOf(error: Error): string {
  const { cause } = error;
  const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
  return `${error.message}${code}`;
}
