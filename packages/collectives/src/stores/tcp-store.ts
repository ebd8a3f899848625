import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import {
  checkOptions,
  CollectiveTimeoutError,
  ConfigError,
  option,
  type CallOptions,
  type OptionRules,
  type Store,
} from '@shardwise/core/spec';
import { connectPeer, type StreamReader } from '../wire/connect.ts';
import { encodeFrame } from '../wire/frame-header.ts';
import { FrameParser, type Frame } from '../wire/frame-parser.ts';
import { protocolError } from '../wire/wire-error.ts';
import { startDeadline } from './deadline.ts';
import { storeClosedError } from './store-errors.ts';
import { checkAmount, checkAwaited, checkKey, checkValue } from './store-limits.ts';
import {
  decodeParts,
  decodeText,
  encodeParts,
  encodeText,
  replyKinds,
  replyLimits,
  requestKinds,
  type RequestName,
} from './store-message.ts';

const RETRY_MS = 50;
const READ_BYTES = 16 * 1024;

export interface ConnectStoreOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** Milliseconds for which to try, as the server may start later. Default: 60,000. */
  readonly timeoutMs?: number;
  /** Whether all traffic is encrypted, as on the server. Default: false. */
  readonly encrypt?: boolean;
}

const connectRules: OptionRules<ConnectStoreOptions> = {
  host: option.required(option.nonEmptyText),
  port: option.required(option.integer(0, 65_535)),
  secret: option.required(option.nonEmptyText),
  timeoutMs: option.positive,
  encrypt: option.flag,
};

/**
 * Connects to the store of startStoreServer. Rejects with CollectiveError at once where the secrets differ, and
 * with CollectiveTimeoutError where nobody listens until the time is over.
 */
export async function connectStore(options: ConnectStoreOptions): Promise<Store> {
  checkOptions('connectStore', options, connectRules);
  const { host, port, secret, timeoutMs = 60_000, encrypt = false } = options;
  const deadline = performance.now() + timeoutMs;
  const hello = { purpose: 'store', from: 0, to: 0, size: 0, epoch: 0 } as const;
  for (;;) {
    const client = new TcpStore(`${host}:${port}`);
    const leftMs = Math.max(deadline - performance.now(), RETRY_MS);
    try {
      const at = { host, port, secret, hello, encrypt, timeoutMs: leftMs };
      client.attach(await connectPeer(at, client));
      return client;
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      if (performance.now() + RETRY_MS > deadline)
        throw unreachableError(options, timeoutMs, error);
    }
    await delay(RETRY_MS);
  }
}

interface Pending {
  readonly resolve: (parts: readonly Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
}

class TcpStore implements Store, StreamReader {
  readonly #where: string;
  readonly #parser = new FrameParser(replyLimits);
  readonly #buffer = new Uint8Array(READ_BYTES);
  readonly #pending = new Map<number, Pending>();
  #socket: Socket | undefined;
  #calls = 0;
  #ended: Error | undefined;

  constructor(where: string) {
    this.#where = where;
  }

  attach(socket: Socket): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#end(error));
    socket.on('close', () => this.#end(new Error('its connection was closed')));
    // Calls keep the process alive, and an idle store does not.
    socket.resume().unref();
  }

  target(): Uint8Array {
    return this.#buffer;
  }

  read(bytes: Uint8Array): boolean {
    for (const frame of this.#parser.push(bytes)) this.#settle(frame);
    return true;
  }

  async set(key: string, value: Uint8Array): Promise<void> {
    checkKey(key);
    checkValue(key, value);
    await this.#call('set', [encodeText(key), value]);
  }

  async get(key: string, options: CallOptions = {}): Promise<Uint8Array> {
    checkKey(key);
    return first(await this.#call('get', [encodeText(key)], { keys: [key], options }));
  }

  async add(key: string, amount: number): Promise<number> {
    checkKey(key);
    checkAmount(key, amount);
    const sum = await this.#call('add', [encodeText(key), encodeText(String(amount))]);
    return Number(decodeText(first(sum)));
  }

  async compareSet(
    key: string,
    expected: Uint8Array | undefined,
    desired: Uint8Array,
  ): Promise<Uint8Array> {
    checkKey(key);
    checkValue(key, desired);
    if (expected === undefined) {
      return first(await this.#call('setIfAbsent', [encodeText(key), desired]));
    }
    checkValue(key, expected);
    return first(await this.#call('compareSet', [encodeText(key), expected, desired]));
  }

  async wait(keys: readonly string[], options: CallOptions = {}): Promise<void> {
    checkAwaited(keys);
    if (keys.length > 0) await this.#call('wait', keys.map(encodeText), { keys, options });
  }

  async delete(key: string): Promise<boolean> {
    checkKey(key);
    return first(await this.#call('delete', [encodeText(key)]))[0] === 1;
  }

  close(): void {
    this.#end(undefined);
    this.#socket?.destroy();
  }

  async #call(
    name: RequestName,
    parts: readonly Uint8Array[],
    waiting?: { readonly keys: readonly string[]; readonly options: CallOptions },
  ): Promise<readonly Uint8Array[]> {
    const socket = this.#socket;
    if (this.#ended !== undefined) throw this.#ended;
    if (socket === undefined) throw storeClosedError(this.#where, undefined);
    const tag = this.#calls++;
    const { promise, resolve, reject } = Promise.withResolvers<readonly Uint8Array[]>();
    this.#pending.set(tag, { resolve, reject });
    socket.ref();
    socket.write(encodeFrame(requestKinds[name], tag, encodeParts(parts)));
    const stop =
      waiting === undefined
        ? undefined
        : startDeadline(waiting.keys, waiting.options, (error) => {
            reject(error);
            socket.write(encodeFrame(requestKinds.cancel, tag));
          });
    try {
      return await promise;
    } finally {
      stop?.();
    }
  }

  #settle({ kind, tag, body }: Frame): void {
    const pending = this.#pending.get(tag);
    if (pending === undefined) throw protocolError(`it answers call ${tag}, which nobody made`);
    this.#pending.delete(tag);
    if (this.#pending.size === 0) this.#socket?.unref();
    const parts = decodeParts(body);
    if (kind === replyKinds.value) pending.resolve(parts);
    else pending.reject(refusedError(this.#where, decodeText(first(parts))));
  }

  #end(reason: Error | undefined): void {
    this.#ended ??= storeClosedError(this.#where, reason);
    for (const { reject } of this.#pending.values()) reject(this.#ended);
    this.#pending.clear();
  }
}

function first(parts: readonly Uint8Array[]): Uint8Array {
  return parts[0] ?? new Uint8Array(0);
}

/** Whether trying again may help, as the server may not run yet, or its host may not answer yet. */
function isUnreachable(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return [
    'ECONNREFUSED',
    'ECONNRESET',
    'EHOSTUNREACH',
    'ENETUNREACH',
    'ETIMEDOUT',
    'EAI_AGAIN',
    'ENOTFOUND',
  ].some((name) => name === code);
}

function unreachableError(
  { host, port }: ConnectStoreOptions,
  timeoutMs: number,
  cause: unknown,
): CollectiveTimeoutError {
  return new CollectiveTimeoutError(
    {
      asked: `Connecting to the store at ${host}:${port}`,
      found: `nobody let us in within ${timeoutMs} ms (${cause instanceof Error ? cause.message : String(cause)})`,
      todo: 'Check that its process runs and that its address is reachable from here',
    },
    { host, port, timeoutMs },
    { cause },
  );
}

function refusedError(where: string, text: string): ConfigError {
  return new ConfigError(
    {
      asked: `A call of the store ${where}`,
      found: `it refused: ${text}`,
      todo: 'Change the call',
    },
    { where },
  );
}
