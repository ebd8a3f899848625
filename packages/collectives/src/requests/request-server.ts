import type { Socket } from 'node:net';
import { checkOptions, option, type OptionRules, type RequestHandler } from '@shardwise/core/spec';
import type { Frame } from '../wire/frame-parser.ts';
import { serveFrames, serverRules, type Server, type ServerOptions } from '../wire/serve-frames.ts';
import { protocolError } from '../wire/wire-error.ts';
import {
  decodeMessage,
  DEFAULT_MESSAGE_BYTES,
  encodeMessage,
  encodeRefusal,
  frameKinds,
  requestLimits,
} from './request-message.ts';

/** The number of requests of one connection that may wait for their answers. */
const MAX_PENDING = 1024;

export interface RequestServerOptions extends ServerOptions {
  /** Longer requests end their connection. Default: 1 GiB. */
  readonly maxMessageBytes?: number;
  readonly handler: RequestHandler;
}

const requestServerRules: OptionRules<RequestServerOptions> = {
  ...serverRules,
  maxMessageBytes: option.integer(1),
  handler: option.required(option.callback()),
};

/**
 * Answers requests of processes that have the secret, which use connectRequests. Rejects with ConfigError where the
 * address is taken or is not one of this host.
 */
export async function startRequestServer(options: RequestServerOptions): Promise<Server> {
  checkOptions('startRequestServer', options, requestServerRules);
  const { maxMessageBytes = DEFAULT_MESSAGE_BYTES, handler, ...at } = options;
  let connections = 0;
  return serveFrames(at, {
    purpose: 'requests',
    limits: requestLimits(maxMessageBytes),
    open: (socket) => answerRequests(socket, handler, connections++),
  });
}

function answerRequests(
  socket: Socket,
  handler: RequestHandler,
  number: number,
): (frame: Frame) => void {
  const closed = new AbortController();
  const client = { number, closed: closed.signal };
  const pending = new Set<number>();
  socket.on('close', () => closed.abort());
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
  return ({ tag, body }) => {
    if (pending.has(tag) || pending.size >= MAX_PENDING) {
      throw protocolError(`request ${tag} is one too many`);
    }
    const parts = decodeMessage(body);
    pending.add(tag);
    void answer(tag, parts);
  };
}
