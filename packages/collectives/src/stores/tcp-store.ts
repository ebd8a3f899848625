import { setTimeout as delay } from 'node:timers/promises';
import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import {
  CollectiveTimeoutError,
  ConfigError,
  type CallOptions,
  type Store,
} from '@shardwise/core/spec';
import { connectPeer } from '../wire/connect.ts';
import { FrameCaller } from '../wire/frame-caller.ts';
import { encodeFrame } from '../wire/frame-header.ts';
import type { Frame } from '../wire/frame-parser.ts';
import { limitWait } from './limit-wait.ts';
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

/** Options of `connectStore`. */
export interface ConnectStoreOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** Milliseconds for which it tries to connect, because the server may start later. Default: 60,000. */
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
 * Connects to the store of startStoreServer. Rejects with CollectiveError at once if the secrets differ, and
 * with CollectiveTimeoutError if no server listens within the time limit.
 */
export async function connectStore(options: ConnectStoreOptions): Promise<Store> {
  checkOptions('connectStore', options, connectRules);
  const { host, port, secret, timeoutMs = 60_000, encrypt = false } = options;
  const deadline = performance.now() + timeoutMs;
  const hello = { purpose: 'store', from: 0, to: 0, size: 0, epoch: 0 } as const;
  for (;;) {
    const where = `${host}:${port}`;
    const caller = new FrameCaller({
      limits: replyLimits,
      readBytes: READ_BYTES,
      read: (reply) => readReply(where, reply),
      ended: (reason) => storeClosedError(where, reason),
    });
    const leftMs = Math.max(deadline - performance.now(), RETRY_MS);
    try {
      const at = { host, port, secret, hello, encrypt, timeoutMs: leftMs };
      caller.attach(await connectPeer(at, caller));
      return new TcpStore(caller);
    } catch (error) {
      if (!isUnreachable(error)) throw error;
      if (performance.now() + RETRY_MS > deadline)
        throw unreachableError(options, timeoutMs, error);
    }
    await delay(RETRY_MS);
  }
}

class TcpStore implements Store {
  readonly #caller: FrameCaller;

  constructor(caller: FrameCaller) {
    this.#caller = caller;
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
    this.#caller.close();
  }

  #call(
    name: RequestName,
    parts: readonly Uint8Array[],
    waiting?: { readonly keys: readonly string[]; readonly options: CallOptions },
  ): Promise<readonly Uint8Array[]> {
    const frame = (tag: number): readonly Uint8Array[] => [
      encodeFrame(requestKinds[name], tag, encodeParts(parts)),
    ];
    if (waiting === undefined) return this.#caller.call({ frame });
    return this.#caller.call({
      frame,
      watch: (giveUp) => limitWait(waiting.keys, waiting.options, giveUp),
      cancel: (tag) => encodeFrame(requestKinds.cancel, tag),
    });
  }
}

function readReply(where: string, { kind, body }: Frame): readonly Uint8Array[] | Error {
  const parts = decodeParts(body);
  return kind === replyKinds.value ? parts : refusedError(where, decodeText(first(parts)));
}

function first(parts: readonly Uint8Array[]): Uint8Array {
  return parts[0] ?? new Uint8Array(0);
}

/** Whether trying again may help, because the server may not run yet, or its host may not answer yet. */
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
      found: `no store accepted the connection within ${timeoutMs} ms (${cause instanceof Error ? cause.message : String(cause)})`,
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
