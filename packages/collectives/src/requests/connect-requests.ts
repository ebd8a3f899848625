import type { Socket } from 'node:net';
import {
  type CallOptions,
  checkOptions,
  type CollectiveError,
  CollectiveTimeoutError,
  option,
  type OptionRules,
  type RequestConnection,
} from '@shardwise/core/spec';
import { connectPeer, type StreamReader } from '../wire/connect.ts';
import { FrameParser, type Frame } from '../wire/frame-parser.ts';
import { protocolError } from '../wire/wire-error.ts';
import {
  answerLimits,
  decodeMessage,
  decodeRefusal,
  DEFAULT_MESSAGE_BYTES,
  encodeMessage,
  frameKinds,
  lostError,
} from './request-message.ts';

const READ_BYTES = 1 << 20;

export interface ConnectRequestsOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** Whether all traffic is encrypted, as on the server. Default: false. */
  readonly encrypt?: boolean;
  /** Milliseconds for the connection. Default: 10,000. */
  readonly timeoutMs?: number;
  /** Longer answers end the connection. Default: 1 GiB. */
  readonly maxMessageBytes?: number;
}

const connectRules: OptionRules<ConnectRequestsOptions> = {
  host: option.required(option.nonEmptyText),
  port: option.required(option.integer(0, 65_535)),
  secret: option.required(option.nonEmptyText),
  encrypt: option.flag,
  timeoutMs: option.positive,
  maxMessageBytes: option.integer(1),
};

/** Connects to a server of startRequestServer. Rejects with CollectiveError where nobody listens, or the secrets differ. */
export async function connectRequests(options: ConnectRequestsOptions): Promise<RequestConnection> {
  checkOptions('connectRequests', options, connectRules);
  const { host, port, secret, encrypt = false, timeoutMs = 10_000 } = options;
  const hello = { purpose: 'requests', from: 0, to: 0, size: 0, epoch: 0 } as const;
  const address = `${host}:${port}`;
  const connection = new Connection(address, options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES);
  try {
    const at = { host, port, secret, hello, encrypt, timeoutMs };
    connection.attach(await connectPeer(at, connection));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'COLLECTIVE') throw error;
    throw lostError(address, error instanceof Error ? error.message : String(error), error);
  }
  return connection;
}

interface Pending {
  readonly resolve: (parts: readonly Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
}

class Connection implements RequestConnection, StreamReader {
  readonly address: string;
  readonly #parser: FrameParser;
  readonly #buffer = new Uint8Array(READ_BYTES);
  readonly #pending = new Map<number, Pending>();
  #socket: Socket | undefined;
  #calls = 0;
  #ended: CollectiveError | undefined;

  constructor(address: string, maxMessageBytes: number) {
    this.address = address;
    this.#parser = new FrameParser(answerLimits(maxMessageBytes));
  }

  attach(socket: Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#end(error.message, error));
    socket.on('close', () => this.#end('it was closed'));
    // Requests keep the process alive, and an idle connection does not.
    socket.resume().unref();
  }

  target(): Uint8Array {
    return this.#buffer;
  }

  read(bytes: Uint8Array): boolean {
    for (const frame of this.#parser.push(bytes)) this.#settle(frame);
    return true;
  }

  async request(
    parts: readonly Uint8Array[],
    options: CallOptions = {},
  ): Promise<readonly Uint8Array[]> {
    if (this.#ended !== undefined) throw this.#ended;
    const socket = this.#socket;
    if (socket === undefined) throw lostError(this.address, 'it was never opened');
    options.signal?.throwIfAborted();
    const tag = this.#calls++;
    const { promise, resolve, reject } = Promise.withResolvers<readonly Uint8Array[]>();
    this.#pending.set(tag, { resolve, reject });
    socket.ref();
    socket.cork();
    for (const piece of encodeMessage(frameKinds.request, tag, parts)) socket.write(piece);
    socket.uncork();
    const stop = this.#limit(options, reject);
    try {
      return await promise;
    } finally {
      stop();
    }
  }

  close(): void {
    this.#end('this side closed it');
    this.#socket?.destroy();
  }

  #limit({ timeoutMs, signal }: CallOptions, reject: (error: Error) => void): () => void {
    const timer =
      timeoutMs === undefined || timeoutMs === Number.POSITIVE_INFINITY
        ? undefined
        : setTimeout(() => reject(lateError(this.address, timeoutMs)), timeoutMs);
    const abort = (): void => {
      const reason: unknown = signal?.reason;
      reject(reason instanceof Error ? reason : lostError(this.address, 'the call was given up'));
    };
    signal?.addEventListener('abort', abort, { once: true });
    return () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    };
  }

  #settle({ kind, tag, body }: Frame): void {
    const pending = this.#pending.get(tag);
    if (pending === undefined) throw protocolError(`it answers request ${tag}, which nobody made`);
    const parts = decodeMessage(body);
    this.#pending.delete(tag);
    if (this.#pending.size === 0) this.#socket?.unref();
    if (kind === frameKinds.answer) pending.resolve(parts);
    else pending.reject(decodeRefusal(this.address, parts));
  }

  #end(reason: string, cause?: unknown): void {
    this.#ended ??= lostError(this.address, reason, cause);
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}

function lateError(address: string, timeoutMs: number): CollectiveTimeoutError {
  return new CollectiveTimeoutError(
    {
      asked: `A request to ${address}`,
      found: `no answer within ${timeoutMs} ms`,
      todo: 'Look for a worker that is stalled, or give more time',
    },
    { address, timeoutMs },
  );
}
