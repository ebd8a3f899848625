import { once } from 'node:events';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { ConfigError } from '@shardwise/core/spec';
import { AcceptorHandshake } from './handshake.ts';
import type { Hello } from './hello.ts';
import { PSK_TLS, pskOf } from './secret.ts';

const HANDSHAKE_TIMEOUT_MS = 10_000;

export interface ListenOptions {
  readonly host: string;
  /** The port, or 0 for a free one. */
  readonly port: number;
  readonly secret: string;
  readonly encrypt: boolean;
  readonly maxConnections: number;
  /** Why a connection is refused although it has the secret. Undefined if it is accepted. */
  readonly refusal: (hello: Hello) => string | undefined;
  /**
   * Called with a connection that has passed the handshake. `rest` came after the handshake. The connection flows once
   * it has a 'data' listener.
   */
  readonly accepted: (socket: Socket, hello: Hello, rest: Uint8Array) => void;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
  /** Accepts no more connections. Those that were accepted stay. */
  close(): void;
}

/**
 * Accepts connections that have the secret. Rejects with ConfigError if the address is taken or is not one of this
 * host.
 */
export async function listenForPeers(options: ListenOptions): Promise<Listener> {
  const { host, port, secret, encrypt, maxConnections } = options;
  const greeted = new Set<Socket>();
  const accept = (socket: Socket): void => greet(socket, options, greeted);
  const server: Server = encrypt
    ? createTlsServer(
        { ...PSK_TLS, pskCallback: () => Buffer.from(pskOf(secret)), pskIdentityHint: 'shardwise' },
        accept,
      )
    : createTcpServer(accept);
  server.maxConnections = maxConnections;
  server.listen({ host, port });
  try {
    await once(server, 'listening');
  } catch (error) {
    throw listenError(host, port, error);
  }
  const address = server.address();
  return {
    host,
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: () => {
      server.close();
      for (const socket of greeted) socket.destroy();
    },
  };
}

function greet(socket: Socket, options: ListenOptions, greeted: Set<Socket>): void {
  const handshake = new AcceptorHandshake(options.secret, options.refusal);
  const timer = setTimeout(() => socket.destroy(), HANDSHAKE_TIMEOUT_MS);
  const end = (): void => {
    clearTimeout(timer);
    greeted.delete(socket);
    socket.off('data', receive).off('error', ignore).off('close', end);
  };
  const receive = (bytes: Uint8Array): void => {
    try {
      const { send, rest, refused } = handshake.push(bytes);
      if (refused !== undefined)
        socket
          .off('data', receive)
          .resume()
          .end(send ?? '');
      else if (send !== undefined) socket.write(send);
      if (rest === undefined || handshake.hello === undefined) return;
      end();
      options.accepted(socket, handshake.hello, rest);
    } catch {
      socket.destroy();
    }
  };
  // A connection that is refused is told so, or has gone. There is nobody else to tell.
  const ignore = (): void => {};
  greeted.add(socket);
  socket.setNoDelay(true);
  socket.on('data', receive).on('error', ignore).on('close', end);
}

function listenError(host: string, port: number, cause: unknown): ConfigError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
  const isTaken = code === 'EADDRINUSE';
  return new ConfigError(
    {
      asked: `Listening on ${host}:${port}`,
      found: isTaken ? 'another process has that port' : `the system refused (${code})`,
      todo: isTaken
        ? 'Pass port 0 for a free one, or end the process'
        : "Pass one of this host's addresses, and a port that its user may take",
    },
    { host, port, code },
    { cause },
  );
}
