import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { ApiError } from './api-error.ts';
import { isLoopback, namesThisMachine } from './local-names.ts';
import type { OpenAIApp } from './openai-app.ts';

/** Options of `listen`. */
export interface ListenOptions {
  /** Default: 8000. 0 takes one that is free. */
  readonly port?: number;
  /** The address to listen at. Default: `127.0.0.1`, which other machines cannot reach. */
  readonly host?: string;
  /** The most connections at once. Default: 1024. */
  readonly maxConnections?: number;
}

const listenRules: OptionRules<ListenOptions> = {
  port: option.integer(0),
  host: option.nonEmptyText,
  maxConnections: option.integer(1),
};

/** A server that listens. */
export interface ListeningServer {
  readonly url: string;
  /**
   * Takes no more requests, and waits at most so long until those that have begun are answered. Default: 30,000. Resolves
   * to false if connections were cut before.
   */
  close(timeoutMs?: number): Promise<boolean>;
  /** Cuts all connections at once, as a caller of `close` that waits no longer. */
  cut(): void;
}

const MAX_HEADER_BYTES = 16 * 1024;
const HEADERS_TIMEOUT_MS = 10_000;
/** For reading a whole request. Its answer may take longer. */
const REQUEST_TIMEOUT_MS = 60_000;

/**
 * Answers requests that come to a port. Rejects if it cannot listen there. Where nobody needs a key, because other machines
 * cannot reach the address, requests that name another machine get status 421: pages send them.
 */
export async function listen(
  app: OpenAIApp,
  options: ListenOptions = {},
): Promise<ListeningServer> {
  checkOptions('listen', options, listenRules);
  const { port = 8000, host = '127.0.0.1', maxConnections = 1024 } = options;
  const isOpen = !app.needsKey && isLoopback(host);
  const fetch: OpenAIApp['fetch'] = (request) =>
    isOpen && !namesThisMachine(request.headers.get('host'))
      ? otherName().response()
      : app.fetch(request);
  const answer = getRequestListener(fetch, { overrideGlobalObjects: false });
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
    },
    (request, response) => void answer(request, response),
  );
  server.maxConnections = maxConnections;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  const { port: own } = server.address() as AddressInfo;
  let wasCut = false;
  const cut = (): void => {
    wasCut = true;
    server.closeAllConnections();
  };
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${own}`,
    close: async (timeoutMs = 30_000) => {
      app.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const timer = setTimeout(cut, timeoutMs);
      await closed;
      clearTimeout(timer);
      return !wasCut;
    },
    cut,
  };
}

function otherName(): ApiError {
  return new ApiError(
    421,
    'This server has no API key, so it only answers requests to localhost. Give it a key to reach it by another name.',
  );
}
