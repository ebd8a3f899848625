import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import {
  CollectiveTimeoutError,
  ConfigError,
  type ProcessGroup,
  type TypedBytes,
} from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import { requireGroup } from '../call/require-group.ts';

/** Options of `monitoredBarrier`. */
export interface MonitoredBarrierOptions {
  /** Milliseconds after which rank 0 gives up. Default: 30 minutes, as in gloo. */
  readonly timeoutMs?: number;
  /** Whether the error names all ranks that have not come, or only the first of them. Default: false. */
  readonly waitAllRanks?: boolean;
}

const barrierRules: OptionRules<MonitoredBarrierOptions> = {
  timeoutMs: option.number,
  waitAllRanks: option.flag,
};

const DEFAULT_TIMEOUT_MS = 30 * 60_000;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
/** The barrier's messages have the highest tag, which callers must not use at the same time. */
const TAG = MAX_TAG - 1;
/** Milliseconds in which the other ranks can learn what rank 0 has found. */
const GRACE_MS = 2000;

/**
 * A barrier in which rank 0 waits for a message of every other rank, as in PyTorch's monitored_barrier. It is
 * slower than a barrier, but it does not wait for calls in flight on the group, so it finds ranks that are
 * stuck in one. If ranks do not come, rank 0 throws CollectiveTimeoutError with their numbers and closes the
 * group with this error. Other ranks that wait get CollectiveAbortedError with its text. Throws ConfigError for
 * a timeout out of range.
 */
export async function monitoredBarrier(
  group: ProcessGroup,
  options: MonitoredBarrierOptions = {},
): Promise<void> {
  requireGroup('monitoredBarrier', group);
  checkOptions('monitoredBarrier', options, barrierRules);
  const timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  if (!(timeoutMs > 0 && timeoutMs <= MAX_TIMEOUT_MS)) throw timeoutRangeError(timeoutMs);
  if (group.rank === 0) await meetAll(group, timeoutMs, options.waitAllRanks ?? false);
  else await meetRank0(group, timeoutMs);
}

/** Rank 0 tells all others that it is there, waits for a message of each, and lets them go. */
async function meetAll(
  group: ProcessGroup,
  timeoutMs: number,
  waitAllRanks: boolean,
): Promise<void> {
  const peers = Array.from({ length: group.size - 1 }, (_, index) => index + 1);
  const missing = new Set(peers);
  const words = peers.map(async (peer) => {
    // The barrier itself keeps the time, because a receive that ends at its own limit would not name the other ranks.
    await group.recv(word(), peer, { tag: TAG, timeoutMs: Infinity });
    missing.delete(peer);
  });
  const greetings = tellAll(group, peers);
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const error = missingError(timeoutMs, waitAllRanks ? [...missing] : [...missing].slice(0, 1));
    group.close(error);
    reject(error);
  }, timeoutMs);
  try {
    await Promise.race([Promise.all([greetings, ...words]), timeout]);
  } finally {
    clearTimeout(timer);
  }
  await tellAll(group, peers);
}

async function meetRank0(group: ProcessGroup, timeoutMs: number): Promise<void> {
  const told = group.send(word(), 0, { tag: TAG, timeoutMs: timeoutMs + GRACE_MS });
  const here = group.recv(word(), 0, { tag: TAG, timeoutMs });
  await Promise.all([told, here]);
  // The time limit of rank 0 may have begun later than this rank's.
  await group.recv(word(), 0, { tag: TAG, timeoutMs: timeoutMs + GRACE_MS });
}

async function tellAll(group: ProcessGroup, peers: readonly number[]): Promise<void> {
  const timeoutMs = Infinity;
  await Promise.all(peers.map((peer) => group.send(word(), peer, { tag: TAG, timeoutMs })));
}

function word(): TypedBytes {
  return { bytes: new Uint8Array(1), dtype: 'u8' };
}

function missingError(timeoutMs: number, missing: readonly number[]): CollectiveTimeoutError {
  const who = `${missing.length === 1 ? 'rank' : 'ranks'} ${missing.join(', ')}`;
  return new CollectiveTimeoutError(
    {
      asked: `monitoredBarrier on rank 0`,
      found: `${who} failed to pass it in ${timeoutMs} ms`,
      todo: 'Look at what they do instead, or raise timeoutMs',
    },
    { operation: 'monitoredBarrier', rank: 0, timeoutMs, missing },
  );
}

function timeoutRangeError(timeoutMs: number): ConfigError {
  return new ConfigError(
    {
      asked: `monitoredBarrier with timeoutMs ${timeoutMs}`,
      found: `a timeout is more than 0 ms and at most ${MAX_TIMEOUT_MS}`,
      todo: 'Pass a timeout in this range',
    },
    { timeoutMs },
  );
}
