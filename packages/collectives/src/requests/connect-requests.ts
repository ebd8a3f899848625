import {
  type CallOptions,
  checkOptions,
  CollectiveTimeoutError,
  option,
  type OptionRules,
  type RequestConnection,
} from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { startDeadline } from '../call/deadline.ts';
import { connectPeer } from '../wire/connect.ts';
import { FrameCaller } from '../wire/frame-caller.ts';
import type { Frame } from '../wire/frame-parser.ts';
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
  const caller = new FrameCaller({
    limits: answerLimits(options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES),
    readBytes: READ_BYTES,
    read: (reply) => readReply(address, reply),
    ended: (reason) => lostError(address, reason?.message ?? 'this side closed it', reason),
  });
  try {
    const at = { host, port, secret, hello, encrypt, timeoutMs };
    caller.attach(await connectPeer(at, caller));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'COLLECTIVE') throw error;
    throw lostError(address, error instanceof Error ? error.message : String(error), error);
  }
  return new Connection(address, caller);
}

class Connection implements RequestConnection {
  readonly address: string;
  readonly #caller: FrameCaller;

  constructor(address: string, caller: FrameCaller) {
    this.address = address;
    this.#caller = caller;
  }

  async request(
    parts: readonly Uint8Array[],
    options: CallOptions = {},
  ): Promise<readonly Uint8Array[]> {
    checkOptions('a request', options, callRules);
    options.signal?.throwIfAborted();
    const errors = {
      late: (timeoutMs: number) => lateError(this.address, timeoutMs),
      aborted: (reason: unknown) =>
        reason instanceof Error ? reason : lostError(this.address, 'the call was given up'),
    };
    return this.#caller.call({
      frame: (tag) => encodeMessage(frameKinds.request, tag, parts),
      watch: (giveUp) => startDeadline(options, errors, giveUp),
    });
  }

  close(): void {
    this.#caller.close();
  }
}

function readReply(address: string, { kind, body }: Frame): readonly Uint8Array[] | Error {
  const parts = decodeMessage(body);
  return kind === frameKinds.answer ? parts : decodeRefusal(address, parts);
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
