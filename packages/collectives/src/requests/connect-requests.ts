import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import {
  CollectiveError,
  CollectiveTimeoutError,
  RefusedError,
  type RequestConnection,
  type RequestOptions,
} from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { startDeadline } from '../call/deadline.ts';
import { connectPeer } from '../wire/connect.ts';
import { FrameCaller } from '../wire/frame-caller.ts';
import { encodeFrame } from '../wire/frame-header.ts';
import type { Frame } from '../wire/frame-parser.ts';
import { MessageMemory } from './message-memory.ts';
import {
  answerLimits,
  decodeMessage,
  decodeRefusal,
  DEFAULT_MESSAGE_BYTES,
  encodeMessage,
  frameKinds,
  freePlaces,
  lostError,
  placeParts,
} from './request-message.ts';

const READ_BYTES = 1 << 20;
/** From messages of this length in bytes on, the two sides look for memory that they can share. */
const LONG_BYTES = 1 << 16;

/** Options of `connectRequests`. */
export interface ConnectRequestsOptions {
  readonly host: string;
  readonly port: number;
  readonly secret: string;
  /** Whether all traffic is encrypted, as on the server. Default: false. */
  readonly encrypt?: boolean;
  /** Milliseconds that the connection may take. Default: 10,000. */
  readonly timeoutMs?: number;
  /** The longest answer. A longer one ends the connection. Default: 1 GiB. */
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

const requestRules: OptionRules<RequestOptions> = { ...callRules, onSent: option.callback() };

/**
 * Connects to a server of startRequestServer. Rejects with CollectiveError if no server listens or the secrets
 * differ.
 */
export async function connectRequests(options: ConnectRequestsOptions): Promise<RequestConnection> {
  checkOptions('connectRequests', options, connectRules);
  const { host, port, secret, encrypt = false, timeoutMs = 10_000 } = options;
  const hello = { purpose: 'requests', from: 0, to: 0, size: 0, epoch: 0 } as const;
  const address = `${host}:${port}`;
  const connection = new Connection(address, options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES);
  try {
    const at = { host, port, secret, hello, encrypt, timeoutMs };
    const { caller } = connection;
    caller.attach(await connectPeer(at, caller));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'COLLECTIVE') throw error;
    throw lostError(address, error instanceof Error ? error.message : String(error), error);
  }
  return connection;
}

class Connection implements RequestConnection {
  readonly address: string;
  readonly caller: FrameCaller;
  #memory: MessageMemory | undefined;
  /** Settles when it is known whether the two sides share memory. Undefined before the first long message. */
  #sharing: Promise<void> | undefined;
  #hasLongMessages = false;
  /** Calls that have no answer yet, by their tags. */
  readonly #calls = new Map<number, OpenCall>();

  constructor(address: string, maxMessageBytes: number) {
    this.address = address;
    this.caller = new FrameCaller({
      limits: answerLimits(maxMessageBytes),
      readBytes: READ_BYTES,
      read: (reply) => this.#readReply(reply),
      ended: (reason) => lostError(address, reason?.message ?? 'this side closed it', reason),
    });
  }

  async request<T>(
    parts: readonly Uint8Array[],
    read: (answer: readonly Uint8Array[]) => T | Promise<T>,
    options: RequestOptions = {},
  ): Promise<T> {
    checkOptions('a request', options, requestRules);
    options.signal?.throwIfAborted();
    const errors = {
      late: (timeoutMs: number) => lateError(this.address, timeoutMs),
      aborted: (reason: unknown) =>
        reason instanceof Error ? reason : lostError(this.address, 'the call was given up'),
    };
    this.#hasLongMessages ||= parts.some(({ byteLength }) => byteLength >= LONG_BYTES);
    if (this.#hasLongMessages) await (this.#sharing ??= this.#share());
    const call: OpenCall = { places: placeParts(parts, this.#memory), isGivenUp: false };
    try {
      const answer = await this.caller.call({
        frame: (tag) => {
          this.#calls.set(tag, call);
          return encodeMessage(frameKinds.request, tag, parts, call.places);
        },
        sent: options.onSent,
        watch: (giveUp) => startDeadline(options, errors, giveUp),
      });
      return await read(answer);
    } finally {
      call.isGivenUp = true;
      call.release?.();
    }
  }

  close(): void {
    this.caller.close();
  }

  /** Asks the server for memory that both sides can use. Without it, all parts are sent over the connection. */
  async #share(): Promise<void> {
    try {
      const [offer = new Uint8Array(0)] = await this.caller.call({
        frame: (tag) => [encodeFrame(frameKinds.share, tag)],
      });
      this.#memory = MessageMemory.open(offer);
    } catch (error) {
      // If the connection has ended, the request must fail with that error.
      if (CollectiveError.isInstance(error) && !RefusedError.isInstance(error)) throw error;
    }
  }

  #readReply({ kind, tag, body }: Frame): readonly Uint8Array[] | Error {
    const call = this.#calls.get(tag);
    this.#calls.delete(tag);
    freePlaces(call?.places ?? [], this.#memory);
    const { parts, isShared } = decodeMessage(body, this.#memory);
    if (kind === frameKinds.refusal) return decodeRefusal(this.address, parts);
    this.#hasLongMessages ||= body.byteLength >= LONG_BYTES;
    if (!isShared) return parts;
    const release = (): void => this.caller.tell(encodeFrame(frameKinds.release, tag));
    if (call === undefined || call.isGivenUp) release();
    else call.release = release;
    return parts;
  }
}

interface OpenCall {
  /** Where the parts of the request lie in shared memory. Undefined for a part that is sent. */
  readonly places: readonly (number | undefined)[];
  /** Whether nobody reads the answer any more. */
  isGivenUp: boolean;
  /** Tells the server that an answer in shared memory has been read. */
  release?: () => void;
}

function lateError(address: string, timeoutMs: number): CollectiveTimeoutError {
  return new CollectiveTimeoutError(
    {
      asked: `A request to ${address}`,
      found: `no answer within ${timeoutMs} ms`,
      todo: 'Look for a worker that has stalled, or raise the time limit',
    },
    { address, timeoutMs },
  );
}
