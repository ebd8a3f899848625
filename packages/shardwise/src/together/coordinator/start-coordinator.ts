import { createHash, randomInt, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { MAX_FRAME_BYTES } from '../protocol/limits.ts';
import type { Link, LinkEvents } from '../protocol/link.ts';
import type { RunStatus } from '../protocol/run-status.ts';
import { Coordinator } from './coordinator.ts';
import { coordinatorPage } from './coordinator-page.ts';
import { SocketLink } from './socket-link.ts';

/** What a coordinator listens with. */
export interface StartCoordinatorOptions {
  readonly host: string;
  /** 0 takes one that is free. */
  readonly port: number;
  /** Each lets members in. With several, the token of a member that has cheated is refused from then on. */
  readonly tokens: readonly string[];
  /** The share of the updates that other members make again, from 0 to 1. */
  readonly audit: number;
  readonly maxMembers: number;
  readonly roundTimeoutMs: number;
  /** The bytes that a member may send in a second. */
  readonly bytesPerSecond: number;
  /** The bytes that may be on their way to a member. */
  readonly maxBufferedBytes: number;
  readonly onNotice: (notice: string) => void;
}

/** A coordinator that listens. */
export interface ListeningCoordinator {
  /** The address for members. */
  readonly url: string;
  /** The address of the page. */
  readonly pageUrl: string;
  readonly status: RunStatus;
  close(): Promise<void>;
}

const TICK_MS = 100;
/** A stranger has so long to say the token. */
const HELLO_MS = 10_000;
/** The most connections that have not said it. */
const MAX_STRANGERS = 64;
const STATE_TIMEOUT_MS = 30_000;
const MAX_HEADER_BYTES = 16 * 1024;
const RANDOM_RANGE = 2 ** 32;

/** Listens for members, and shows a page. Rejects if it cannot listen. */
export async function startCoordinator(
  options: StartCoordinatorOptions,
): Promise<ListeningCoordinator> {
  const { host, port, maxMembers, bytesPerSecond } = options;
  const { maxBufferedBytes, roundTimeoutMs, onNotice } = options;
  const coordinator = new Coordinator({
    tokenOf: tokenCheck(options.tokens),
    tokens: options.tokens.length,
    audit: options.audit,
    random: () => randomInt(RANDOM_RANGE) / RANDOM_RANGE,
    maxMembers,
    roundTimeoutMs,
    stateTimeoutMs: STATE_TIMEOUT_MS,
    maxBufferedBytes,
    now: () => performance.now(),
    onNotice,
  });
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    answer(request, response, coordinator);
  });
  server.maxConnections = 2 * (maxMembers + MAX_STRANGERS);
  const sockets = new WebSocketServer({ server, maxPayload: MAX_FRAME_BYTES });
  const links = new Set<SocketLink>();
  const strangers = new Set<Link>();
  sockets.on('connection', (socket) => {
    if (strangers.size >= MAX_STRANGERS) {
      socket.terminate();
      return;
    }
    const link = new SocketLink(socket, bytesPerSecond, (own) => {
      strangers.add(own);
      return strangerEvents(coordinator, own, () => strangers.delete(own));
    });
    links.add(link);
    const late = setTimeout(() => {
      if (strangers.has(link)) link.terminate();
    }, HELLO_MS);
    socket.on('close', () => {
      clearTimeout(late);
      links.delete(link);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    // The error of the server is that of the sockets, too.
    sockets.on('error', () => undefined);
    server.listen(port, host, resolve);
  });
  const timer = setInterval(() => coordinator.tick(), TICK_MS);
  const { port: own } = server.address() as AddressInfo;
  const address = `${host.includes(':') ? `[${host}]` : host}:${own}`;
  return {
    url: `ws://${address}`,
    pageUrl: `http://${address}/`,
    get status() {
      return coordinator.status;
    },
    async close() {
      clearInterval(timer);
      for (const link of links) link.terminate();
      sockets.close();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** A connection is a stranger's until the coordinator has read its first frame, which lets it in or ends it. */
function strangerEvents(coordinator: Coordinator, link: Link, isKnown: () => void): LinkEvents {
  const events = coordinator.connect(link);
  return {
    receive(frame) {
      isKnown();
      events.receive(frame);
    },
    closed() {
      isKnown();
      events.closed();
    },
  };
}

/** Tokens are compared by their hashes, in a time that does not depend on where they differ. */
function tokenCheck(tokens: readonly string[]): (text: string) => number {
  const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();
  const own = tokens.map(hashOf);
  return (text) => {
    const hash = hashOf(text);
    // All are compared, also after the right one.
    return own.map((each) => timingSafeEqual(hash, each)).lastIndexOf(true);
  };
}

function answer(
  { method, url }: IncomingMessage,
  response: ServerResponse,
  coordinator: Coordinator,
): void {
  const isKnown = url === '/' || url === '/status';
  if (method !== 'GET' || !isKnown) {
    response.writeHead(isKnown ? 405 : 404).end();
    return;
  }
  const { status } = coordinator;
  const isPage = url === '/';
  response.writeHead(200, {
    'content-type': isPage ? 'text/html; charset=utf-8' : 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  });
  response.end(isPage ? coordinatorPage(status) : JSON.stringify(status));
}
