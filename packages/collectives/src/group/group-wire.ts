import type { Transport } from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import type { Stream, Wire } from '../algorithms/wire.ts';
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
 * So many calls in a row have data of different tags. A message that a transport loses then leaves its call
 * waiting, and is not taken for that of the next call.
 */
export const CALL_TAGS = 256;
/** The highest below the user's. */
const RECORDS = MAX_TAG - 1;

/**
 * The messages of one purpose between the members of a group. Their tags, from `id` * 2^21: data of the
 * first CALL_TAGS calls, that of their stream 1, the records, and from 2^20 on the user's.
 */
export function groupWire(membership: Membership, purpose: Purpose): Wire {
  if (purpose === 'data') return callWire(wireEnds(membership), 0);
  const { transport, members, id } = membership;
  const tag = firstTag(id) + (purpose === 'records' ? RECORDS : MAX_TAG + purpose.tag);
  return {
    ...wireEnds(membership).ranks,
    send: (to, bytes) => owned(transport.send(members[to]!, tag, bytes)),
    recv: (from, bytes) => owned(transport.recv(members[from]!, tag, bytes)),
  };
}

/** What the wires of a group's calls have in common. */
export interface WireEnds {
  readonly membership: Membership;
  readonly ranks: Pick<Wire, 'rank' | 'size' | 'hosts'>;
}

export function wireEnds(membership: Membership): WireEnds {
  const { transport, members, hosts } = membership;
  const rank = members.indexOf(transport.rank);
  const size = members.length;
  return {
    membership,
    ranks: { rank, size, hosts: ranksByHost(members.map((member) => hosts[member] ?? 0)) },
  };
}

/** The data of one call. */
export interface CallWire extends Wire {
  /** Ranks from whom messages have not come that are awaited, ascending. */
  readonly awaited: () => readonly number[];
}

export function callWire({ membership, ranks }: WireEnds, sequence: number): CallWire {
  const { transport, members, id } = membership;
  const first = firstTag(id) + (sequence % CALL_TAGS);
  const tagOf = (stream: Stream = 0): number => first + stream * CALL_TAGS;
  const awaited = new Map<number, number>();
  const count = (from: number, messages: number): void => {
    awaited.set(from, (awaited.get(from) ?? 0) + messages);
  };
  return {
    ...ranks,
    send: (to, bytes, stream) => owned(transport.send(members[to]!, tagOf(stream), bytes)),
    recv: (from, bytes, stream) => {
      const received = transport.recv(members[from]!, tagOf(stream), bytes);
      const settle = (): void => count(from, -1);
      count(from, 1);
      received.then(settle, settle);
      return received;
    },
    awaited: () =>
      [...awaited]
        .flatMap(([rank, messages]) => (messages > 0 ? [rank] : []))
        .sort((a, b) => a - b),
  };
}

function firstTag(id: number): number {
  return id * 2 * MAX_TAG;
}

/** An algorithm that fails awaits no more, but what it has begun may fail as well. */
function owned(promise: Promise<void>): Promise<void> {
  promise.catch(() => {});
  return promise;
}
