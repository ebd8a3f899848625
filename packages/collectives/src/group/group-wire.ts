import type { Transport } from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import type { Wire } from '../algorithms/wire.ts';

/** The collectives' data, the records that ranks compare, and the user's own messages. */
export type Stream = 'data' | 'records' | { readonly tag: number };

/**
 * Which ranks of a transport form a group, and which of its tags are theirs: `id` 0 is the world,
 * and the groups of its n-th split are n, those of their m-th split n * 1024 + m. Two groups with
 * one id have no rank in common.
 */
export interface Membership {
  readonly transport: Transport;
  readonly members: readonly number[];
  readonly id: number;
}

export const MAX_SPLITS = 1023;
/** So that tags stay below 2^53. */
export const MAX_ID: number = 2 ** 30;

/** One stream between the members of a group. */
export function groupWire({ transport, members, id }: Membership, stream: Stream): Wire {
  const number = stream === 'data' ? 0 : stream === 'records' ? 1 : MAX_TAG + stream.tag;
  const tag = id * 2 * MAX_TAG + number;
  return {
    rank: members.indexOf(transport.rank),
    size: members.length,
    send: (to, bytes) => owned(transport.send(members[to]!, tag, bytes)),
    recv: (from, bytes) => owned(transport.recv(members[from]!, tag, bytes)),
  };
}

/** An algorithm that fails awaits no more, but what it has begun may fail as well. */
function owned(promise: Promise<void>): Promise<void> {
  promise.catch(() => {});
  return promise;
}
