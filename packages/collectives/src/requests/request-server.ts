import type { Socket } from 'node:net';
import { checkOptions, option, type OptionRules, type RequestHandler } from '@shardwise/core/spec';
import { FrameParser, type Frame } from '../wire/frame-parser.ts';
import { listenForPeers } from '../wire/listen.ts';
import { protocolError } from '../wire/wire-error.ts';
import {
  decodeMessage,
  DEFAULT_MESSAGE_BYTES,
  encodeMessage,
  encodeRefusal,
  frameKinds,
  requestLimits,
} from './request-message.ts';

const MAX_CONNECTIONS = 4096;
/** The number of requests of one connection that may wait for their answers. */
const MAX_PENDING = 1024;

export interface RequestServerOptions {
  /** The address to listen on. Default: 127.0.0.1, which only processes of this host reach. */
  readonly host?: string;
  /** Default: 0, which means a free port. */
  readonly port?: number;
  /** Whoever has the secret may send requests. */
  readonly secret: string;
  /** Whether all traffic is encrypted (TLS with the secret as key). Default: false. */
  readonly encrypt?: boolean;
  /** Longer requests end their connection. Default: 1 GiB. */
  readonly maxMessageBytes?: number;
  readonly handler: RequestHandler;
}

const serverRules: OptionRules<RequestServerOptions> = {
  host: option.nonEmptyText,
  port: option.integer(0, 65_535),
  secret: option.required(option.nonEmptyText),
  encrypt: option.flag,
  maxMessageBytes: option.integer(1),
  handler: option.required(option.callback()),
};

export interface RequestServer {
  readonly host: string;
  readonly port: number;
  /** Ends the server and its connections. */
  close(): void;
}

/**
 * Answers requests of processes that have the secret, which use connectRequests. Rejects with ConfigError where the
 * address is taken or is not one of this host.
 */
export async function startRequestServer(options: RequestServerOptions): Promise<RequestServer> {
  checkOptions('startRequestServer', options, serverRules);
  const { host = '127.0.0.1', port = 0, secret, encrypt = false, handler } = options;
  const { maxMessageBytes = DEFAULT_MESSAGE_BYTES } = options;
  const sockets = new Set<Socket>();
  let connections = 0;
  const listener = await listenForPeers({
    host,
    port,
    secret,
    encrypt,
    maxConnections: MAX_CONNECTIONS,
    refusal: ({ purpose }) =>
      purpose === 'requests'
        ? undefined
        : `this port takes requests, and is not one for ${purpose}`,
    accepted: (socket, _, rest) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      serve(socket, { handler, number: connections++, maxMessageBytes, rest });
    },
  });
  return {
    host: listener.host,
    port: listener.port,
    close: () => {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

interface Service {
  readonly handler: RequestHandler;
  readonly number: number;
  readonly maxMessageBytes: number;
  readonly rest: Uint8Array;
}

function serve(socket: Socket, { handler, number, maxMessageBytes, rest }: Service): void {
  const parser = new FrameParser(requestLimits(maxMessageBytes));
  const closed = new AbortController();
  const client = { number, closed: closed.signal };
  const pending = new Set<number>();
  const reply = (kind: number, tag: number, parts: readonly Uint8Array[]): void => {
    pending.delete(tag);
    if (socket.destroyed) return;
    socket.cork();
    for (const piece of encodeMessage(kind, tag, parts)) socket.write(piece);
    socket.uncork();
  };
  const answer = async (tag: number, parts: readonly Uint8Array[]): Promise<void> => {
    try {
      reply(frameKinds.answer, tag, await handler(parts, client));
    } catch (error) {
      reply(frameKinds.refusal, tag, encodeRefusal(error));
    }
  };
  const take = ({ tag, body }: Frame): void => {
    if (pending.has(tag) || pending.size >= MAX_PENDING) {
      throw protocolError(`request ${tag} is one too many`);
    }
    const parts = decodeMessage(body);
    pending.add(tag);
    void answer(tag, parts);
  };
  const receive = (bytes: Uint8Array): void => {
    try {
      for (const frame of parser.push(bytes)) take(frame);
    } catch {
      socket.destroy();
    }
  };
  socket.on('data', receive);
  // Nobody needs to be told when a client closes its connection but the handler.
  socket.on('error', () => {});
  socket.on('close', () => closed.abort());
  if (rest.byteLength > 0) receive(rest);
}
