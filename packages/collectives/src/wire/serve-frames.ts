import type { Socket } from 'node:net';
import type { FrameLimits } from './frame-header.ts';
import { FrameParser, type Frame } from './frame-parser.ts';
import type { Hello } from './hello.ts';
import { listenForPeers } from './listen.ts';
import type { Server, ServerOptions } from './server-options.ts';

const MAX_CONNECTIONS = 4096;

/** What a server does with the frames of its clients. */
export interface FrameService {
  readonly purpose: Hello['purpose'];
  /** The greatest length of each kind of frame. */
  readonly limits: FrameLimits;
  /**
   * Takes a new client. Returns a function that takes the client's frames. If it throws for a frame, the connection
   * ends.
   */
  readonly open: (socket: Socket) => (frame: Frame) => void;
}

/**
 * Serves processes that have the secret and connect for this purpose. Rejects with ConfigError if the address is taken
 * or is not one of this host.
 */
export async function serveFrames(options: ServerOptions, service: FrameService): Promise<Server> {
  const { host = '127.0.0.1', port = 0, secret, encrypt = false } = options;
  const sockets = new Set<Socket>();
  const listener = await listenForPeers({
    host,
    port,
    secret,
    encrypt,
    maxConnections: MAX_CONNECTIONS,
    refusal: ({ purpose }) =>
      purpose === service.purpose
        ? undefined
        : `this port is for ${service.purpose}, and not for ${purpose}`,
    accepted: (socket, _, rest) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      serve(socket, service, rest);
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

function serve(socket: Socket, { limits, open }: FrameService, rest: Uint8Array): void {
  const parser = new FrameParser(limits);
  const take = open(socket);
  const receive = (bytes: Uint8Array): void => {
    try {
      for (const frame of parser.push(bytes)) take(frame);
    } catch {
      socket.destroy();
    }
  };
  socket.on('data', receive);
  // Only the service needs to know of an error, and it hears of the close.
  socket.on('error', () => {});
  if (rest.byteLength > 0) receive(rest);
}
