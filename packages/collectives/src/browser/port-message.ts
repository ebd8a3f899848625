import type { AbortCause } from '@shardwise/core/spec';

/** What the two ends of a port say to each other. */
export type PortMessage =
  | { readonly kind: 'message'; readonly tag: number; readonly bytes: ArrayBuffer }
  /** Messages of this cost have been received. */
  | { readonly kind: 'taken'; readonly cost: number }
  /** The sender leaves. Nothing comes after this. */
  | { readonly kind: 'goodbye' }
  /** The sender has ended the transport. */
  | ({ readonly kind: 'abort' } & AbortCause);

const MAX_REASON_LENGTH = 4096;
/** The cost of a message that nobody has received, in addition to its bytes. */
const MESSAGE_COST = 64;

/** The cost of a message that nobody has received. The sum of these costs is limited for each peer. */
export function costOf(byteLength: number): number {
  return byteLength + MESSAGE_COST;
}

/**
 * Whether one more message may be on its way. If the waiting messages cost at most half of what is allowed, a message
 * of any size may go, so that no size is refused for ever.
 */
export function hasRoom(waitingCost: number, cost: number, maxCost: number): boolean {
  return waitingCost + cost <= maxCost || waitingCost <= maxCost / 2;
}

/** The message in these data. Undefined for data that no end of a transport sends. */
export function parsePortMessage(data: unknown): PortMessage | undefined {
  if (typeof data !== 'object' || data === null || !('kind' in data)) return undefined;
  const { kind } = data;
  if (kind === 'goodbye') return { kind };
  if (kind === 'message' && 'tag' in data && 'bytes' in data) {
    const { tag, bytes } = data;
    return isCount(tag) && bytes instanceof ArrayBuffer ? { kind, tag, bytes } : undefined;
  }
  if (kind === 'taken' && 'cost' in data) {
    const { cost } = data;
    return isCount(cost) ? { kind, cost } : undefined;
  }
  if (kind === 'abort' && 'rank' in data && 'reason' in data) {
    const { rank, reason } = data;
    const isRank = rank === undefined || isCount(rank);
    if (!isRank || typeof reason !== 'string') return undefined;
    return { kind, rank, reason: reason.slice(0, MAX_REASON_LENGTH) };
  }
  return undefined;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}
