import { connect as connectTcp, type OnReadOpts, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { ConnectorHandshake, wrongSecretError } from './handshake.ts';
import type { Hello } from './hello.ts';
import { PSK_TLS, pskOf } from './secret.ts';
import { protocolError } from './wire-error.ts';

/** Takes what a connection receives, in memory that the reader chooses. */
export interface StreamReader {
  /** The memory for the next bytes. It is not empty. */
  target(): Uint8Array;
  /** `bytes` have come, at the start of the last target. Returns false to read no more until socket.resume(). */
  read(bytes: Uint8Array): boolean;
}

export interface ConnectOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  readonly hello: Hello;
  readonly encrypt: boolean;
  /** Milliseconds for the connection and the handshake. */
  readonly timeoutMs: number;
}

/**
 * Connects and proves that both sides have the secret. From then on `reader` gets what arrives, straight from the
 * kernel into its target. Rejects with CollectiveError if the secrets differ.
 */
export function connectPeer(options: ConnectOptions, reader: StreamReader): Promise<Socket> {
  const { host, port, secret, hello, encrypt, timeoutMs } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const handshake = new ConnectorHandshake(secret, hello);
  const greeting = new Uint8Array(4096);
  let isOpen = false;

  const receive = (bytes: Uint8Array): boolean => {
    if (isOpen) return reader.read(bytes);
    const { send, rest } = handshake.push(bytes);
    if (send !== undefined) socket.write(send);
    if (rest === undefined) return true;
    isOpen = true;
    clearTimeout(timer);
    socket.off('error', fail).off('close', refuse);
    resolve(socket);
    return rest.byteLength === 0 || replay(reader, rest);
  };
  const onread = {
    buffer: () => (isOpen ? reader.target() : greeting),
    callback: (byteLength: number, buffer: Uint8Array): boolean => {
      try {
        return receive(buffer.subarray(0, byteLength));
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)));
        return false;
      }
    },
  };
  // TLS sockets accept `onread`, too, although their type does not say so.
  const tlsOptions: ConnectionOptions & { readonly onread: OnReadOpts } = {
    ...PSK_TLS,
    host,
    port,
    onread,
    pskCallback: () => ({ psk: pskOf(secret), identity: 'shardwise' }),
    checkServerIdentity: () => undefined,
  };
  const socket: Socket = encrypt ? connectTls(tlsOptions) : connectTcp({ host, port, onread });
  socket.setNoDelay(true);
  const fail = (error: Error): void => {
    clearTimeout(timer);
    reject(encrypt && isTlsError(error) ? wrongSecretError('TLS refused it') : error);
  };
  const refuse = (): void => {
    clearTimeout(timer);
    reject(protocolError(`${host}:${port} closed the connection in the handshake`, { host, port }));
  };
  const timer = setTimeout(() => {
    socket.destroy(protocolError(`${host}:${port} did not answer within ${timeoutMs} ms`));
  }, timeoutMs);
  socket.on('error', fail).on('close', refuse);
  socket.once(encrypt ? 'secureConnect' : 'connect', () => socket.write(handshake.opening));
  return promise;
}

/** Gives a reader bytes that have been read into other memory. */
function replay(reader: StreamReader, bytes: Uint8Array): boolean {
  let offset = 0;
  let goesOn = true;
  while (offset < bytes.byteLength) {
    const target = reader.target();
    const part = bytes.subarray(offset, offset + target.byteLength);
    target.set(part);
    goesOn = reader.read(target.subarray(0, part.byteLength));
    offset += part.byteLength;
  }
  return goesOn;
}

function isTlsError(error: Error): boolean {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return code.startsWith('ERR_SSL') || code === 'EPROTO';
}
