import type { Socket } from 'node:net';
import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import type { RequestClient, RequestHandler } from '@shardwise/core/spec';
import type { Frame } from '../wire/frame-parser.ts';
import { serveFrames } from '../wire/serve-frames.ts';
import { serverRules, type Server, type ServerOptions } from '../wire/server-options.ts';
import { protocolError } from '../wire/wire-error.ts';
import { MessageMemory } from './message-memory.ts';
import {
  decodeMessage,
  DEFAULT_MESSAGE_BYTES,
  encodeMessage,
  encodeRefusal,
  frameKinds,
  freePlaces,
  placeParts,
  requestLimits,
} from './request-message.ts';

/** The number of requests of one connection that may wait for their answers. */
const MAX_PENDING = 1024;

/** Options of `startRequestServer`. */
export interface RequestServerOptions extends ServerOptions {
  /** The longest request. A longer one ends its connection. Default: 1 GiB. */
  readonly maxMessageBytes?: number;
  readonly handler: RequestHandler;
}

const requestServerRules: OptionRules<RequestServerOptions> = {
  ...serverRules,
  maxMessageBytes: option.integer(1),
  handler: option.required(option.callback()),
};

/**
 * Starts a server that answers requests of processes with the same secret, which use connectRequests. Rejects
 * with ConfigError if the address is in use or does not belong to this host.
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
  const service = new Service(socket, handler, number);
  return (frame) => service.take(frame);
}

/** The server's side of one connection. */
class Service {
  readonly #socket: Socket;
  readonly #handler: RequestHandler;
  readonly #client: RequestClient;
  readonly #pending = new Set<number>();
  #shared: ReturnType<typeof MessageMemory.create> | undefined;
  /** Whether the client has shown that it has opened the memory. */
  #isJoined = false;
  /** Where answers lie that the client has not read yet, by their tags. */
  readonly #placed = new Map<number, readonly (number | undefined)[]>();

  constructor(socket: Socket, handler: RequestHandler, number: number) {
    this.#socket = socket;
    this.#handler = handler;
    const closed = new AbortController();
    this.#client = { number, closed: closed.signal };
    socket.on('close', () => {
      this.#shared?.withdraw();
      closed.abort();
    });
  }

  /** Throws CollectiveError for a frame that no client of this version sends. */
  take({ kind, tag, body }: Frame): void {
    if (kind === frameKinds.release) return this.#free(tag);
    const isKnown = this.#pending.has(tag) || this.#placed.has(tag);
    if (isKnown || this.#pending.size >= MAX_PENDING) {
      throw protocolError(`request ${tag} is one too many`);
    }
    this.#pending.add(tag);
    if (kind === frameKinds.share) return this.#share(tag);
    const { parts, isShared } = decodeMessage(body, this.#shared?.memory);
    if (isShared && !this.#isJoined) {
      this.#isJoined = true;
      this.#shared?.withdraw();
    }
    void this.#answer(tag, parts);
  }

  async #answer(tag: number, parts: readonly Uint8Array[]): Promise<void> {
    try {
      const answer = await this.#handler(parts, this.#client);
      const memory = this.#isJoined ? this.#shared?.memory : undefined;
      const places = placeParts(answer, memory);
      if (places.some((place) => place !== undefined)) this.#placed.set(tag, places);
      this.#reply(encodeMessage(frameKinds.answer, tag, answer, places), tag);
    } catch (error) {
      this.#reply(encodeMessage(frameKinds.refusal, tag, encodeRefusal(error)), tag);
    }
  }

  #share(tag: number): void {
    if (this.#shared !== undefined) throw protocolError('it asks for memory again');
    try {
      this.#shared = MessageMemory.create();
      this.#reply(encodeMessage(frameKinds.answer, tag, [this.#shared.offer]), tag);
    } catch (error) {
      // The client goes on without shared memory.
      this.#reply(encodeMessage(frameKinds.refusal, tag, encodeRefusal(error)), tag);
    }
  }

  #free(tag: number): void {
    const places = this.#placed.get(tag);
    if (places === undefined) throw protocolError(`it has read answer ${tag}, which is not there`);
    this.#placed.delete(tag);
    freePlaces(places, this.#shared?.memory);
  }

  #reply(pieces: readonly Uint8Array[], tag: number): void {
    this.#pending.delete(tag);
    if (this.#socket.destroyed) return;
    this.#socket.cork();
    for (const piece of pieces) this.#socket.write(piece);
    this.#socket.uncork();
  }
}
