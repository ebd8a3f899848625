import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError, type Store } from '@shardwise/core/spec';
import type { WatchedTransport } from '../watched-transport.ts';
import { joinPeers } from './join-peers.ts';

interface HeartbeatOptions {
  /** Milliseconds between two heartbeats. Default: 250. */
  readonly intervalMs?: number;
  /** Milliseconds without a heartbeat after which a rank counts as lost. Default: 1500. */
  readonly limitMs?: number;
}

/** Options of `tcpTransport`. */
export interface TcpTransportOptions {
  /** The store through which the ranks of this epoch find each other. */
  readonly store: Store;
  readonly rank: number;
  readonly size: number;
  /**
   * The ranks to connect with. Each of them must connect with this rank. Other ranks cannot be reached.
   * Default: all.
   */
  readonly peers?: readonly number[];
  /** The number of the start of the job. Ranks of another epoch are refused. Default: 0. */
  readonly epoch?: number;
  /** Every process that has the secret may join. */
  readonly secret: string;
  /** The address to listen on. Default: 127.0.0.1, which only processes of this host can reach. */
  readonly host?: string;
  /**
   * The address by which other ranks reach this host. Default: `host`, or, if `host` is 0.0.0.0, the first
   * outer address.
   */
  readonly advertisedHost?: string;
  /**
   * Whether all traffic is encrypted (TLS with the secret as key). It is the same on every rank. Default:
   * false.
   */
  readonly encrypt?: boolean;
  /** Milliseconds that the others may take to join. Default: 60,000. */
  readonly timeoutMs?: number;
  /**
   * Whether this rank deletes its address from the store when all its peers have it, or when it gives up. The store of
   * a job that joins again and again would fill up otherwise. A second process that is this rank by mistake is then not
   * told so, but that its peers did not join. Default: false.
   */
  readonly withdrawAddress?: boolean;
  /** Gives up joining: the call rejects with the signal's reason. Default: none. */
  readonly signal?: AbortSignal;
  /**
   * False: none are sent, and a rank is lost when its connections close. This is for ranks of one host whose launcher
   * notices those that are stopped. It is the same on every rank.
   */
  readonly heartbeat?: HeartbeatOptions | false;
  /**
   * The number of bytes that a peer may have sent and this rank does not await yet. Beyond it, the peer waits.
   * Default: 64 MiB.
   */
  readonly maxUnexpectedBytes?: number;
}

const heartbeatRules: OptionRules<HeartbeatOptions> = {
  intervalMs: option.positive,
  limitMs: option.positive,
};

const tcpRules: OptionRules<TcpTransportOptions> = {
  store: option.required(option.object('a store')),
  rank: option.required(option.number),
  size: option.required(option.number),
  peers: option.listOf(option.number),
  epoch: option.number,
  secret: option.required(option.text),
  host: option.nonEmptyText,
  advertisedHost: option.nonEmptyText,
  encrypt: option.flag,
  timeoutMs: option.positive,
  withdrawAddress: option.flag,
  signal: option.object('an AbortSignal'),
  heartbeat: option.either(option.object<HeartbeatOptions>(), {
    fits: (value) => value === false,
    expected: 'false',
  }),
  maxUnexpectedBytes: option.count,
};

/**
 * Joins the ranks of a job over TCP. Resolves when this rank is connected with all its peers. If a rank is
 * lost, every pending and later call rejects with a CollectiveError that names it. Rejects with a
 * CollectiveTimeoutError that names the ranks that did not join, with CollectiveError if the secrets differ,
 * and with ConfigError if another process already is this rank or an option does not fit.
 */
export async function tcpTransport(options: TcpTransportOptions): Promise<WatchedTransport> {
  checkOptions('tcpTransport', options, tcpRules);
  const { rank, size, epoch = 0, host = '127.0.0.1', timeoutMs = 60_000, heartbeat = {} } = options;
  if (heartbeat !== false) checkOptions('tcpTransport, heartbeat,', heartbeat, heartbeatRules);
  const { intervalMs = 250, limitMs = 1500 } = heartbeat === false ? {} : heartbeat;
  check(Number.isInteger(size) && size > 0, `size ${size}`, 'a world has at least one rank');
  check(
    Number.isInteger(rank) && rank >= 0 && rank < size,
    `rank ${rank}`,
    `the ranks are 0 to ${size - 1}`,
  );
  const peers = options.peers ?? Array.from({ length: size }, (_, peer) => peer);
  check(
    peers.every((peer) => Number.isInteger(peer) && peer >= 0 && peer < size),
    `peers ${peers.join(', ')}`,
    `the ranks are 0 to ${size - 1}`,
  );
  check(Number.isSafeInteger(epoch) && epoch >= 0, `epoch ${epoch}`, 'epochs count from 0');
  check(options.secret !== '', 'an empty secret', 'anyone could join');
  check(
    intervalMs > 0 && limitMs > intervalMs,
    `heartbeats every ${intervalMs} ms with a limit of ${limitMs} ms`,
    'the limit is to be longer than the interval',
  );
  return joinPeers({
    store: options.store,
    rank,
    size,
    peers: [...new Set(peers)].filter((peer) => peer !== rank),
    epoch,
    secret: options.secret,
    host,
    advertisedHost: options.advertisedHost,
    encrypt: options.encrypt ?? false,
    timeoutMs,
    withdrawAddress: options.withdrawAddress ?? false,
    signal: options.signal,
    heartbeat: heartbeat === false ? null : { intervalMs, limitMs },
    maxUnexpectedBytes: options.maxUnexpectedBytes ?? 64 << 20,
  });
}

function check(isValid: boolean, what: string, found: string): void {
  if (isValid) return;
  throw new ConfigError({
    asked: `A tcp transport with ${what}`,
    found,
    todo: 'Pass the values that the launcher gives',
  });
}
