import type { Transport } from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import type { Wire } from '../algorithms/wire.ts';
import { ranksByHost } from './topology.ts';

/** The collectives' data, the records that ranks compare, and the user's own messages. */
export type Purpose = 'data' | 'records' | { readonly tag: number };

/**
 * Which ranks of a transport form a group, and which of its tags are theirs: `id` 0 is the world,
 * and the groups of its n-th split are n, those of their m-th split n * 1024 + m. Two groups with
 * one id have no rank in common.
 */
export interface Membership {
  readonly transport: Transport;
  readonly members: readonly number[];
  /** By rank of the transport, the number of its host. */
  readonly hosts: readonly number[];
  readonly id: number;
}

export const MAX_SPLITS = 1023;
/** So that tags stay below 2^53. */
export const MAX_ID: number = 2 ** 30;

/**
 * The messages of one purpose between the members of a group. Their tags, from `id` * 2^21: data,
 * records, data of stream 1, and from 2^20 on the user's.
 */
export function groupWire({ transport, members, hosts, id }: Membership, purpose: Purpose): Wire {
  const number = purpose === 'data' ? 0 : purpose === 'records' ? 1 : MAX_TAG + purpose.tag;
  const first = id * 2 * MAX_TAG + number;
  const tagOf = (stream = 0): number => first + 2 * stream;
  return {
    rank: members.indexOf(transport.rank),
    size: members.length,
    hosts: ranksByHost(members.map((member) => hosts[member] ?? 0)),
    send: (to, bytes, stream) => owned(transport.send(members[to]!, tagOf(stream), bytes)),
    recv: (from, bytes, stream) => owned(transport.recv(members[from]!, tagOf(stream), bytes)),
  };
}

/** An algorithm that fails awaits no more, but what it has begun may fail as well. */
function owned(promise: Promise<void>): Promise<void> {
  promise.catch(() => {});
  return promise;
}
