import type { Transport } from '@shardwise/core/spec';
import type { Stream, Wire } from '../algorithms/wire.ts';
import { MAX_TAG } from '../call/checks.ts';
import { ranksByHost } from './topology.ts';

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
const STREAMS = 2;

/** Tags of one group; those of group `id` are `id * TAGS_PER_GROUP` and on: calls, their records, the user's. */
export const TAGS_PER_GROUP: number = 2 * MAX_TAG;
const RECORDS = STREAMS * CALL_TAGS;

/** What the messages of a group's calls have in common. */
export interface WireEnds {
  readonly transport: Transport;
  readonly members: readonly number[];
  readonly rank: number;
  readonly size: number;
  readonly hosts: readonly (readonly number[])[];
  readonly id: number;
  readonly firstTag: number;
  readonly recordTag: number;
}

export function wireEnds({ transport, members, hosts, id }: Membership): WireEnds {
  const firstTag = id * TAGS_PER_GROUP;
  return {
    transport,
    members,
    rank: members.indexOf(transport.rank),
    size: members.length,
    hosts: ranksByHost(members.map((member) => hosts[member] ?? 0)),
    id,
    firstTag,
    recordTag: firstTag + RECORDS,
  };
}

/** Of the user's messages. */
export function messageTag({ firstTag }: WireEnds, tag: number): number {
  return firstTag + MAX_TAG + tag;
}

/** The data of one call. */
export class CallWire implements Wire {
  readonly #ends: WireEnds;
  readonly #firstTag: number;
  /** By rank, messages that are awaited. */
  readonly #awaited: number[] = [];

  constructor(ends: WireEnds, sequence: number) {
    this.#ends = ends;
    this.#firstTag = ends.firstTag + (sequence % CALL_TAGS);
  }

  get rank(): number {
    return this.#ends.rank;
  }

  get size(): number {
    return this.#ends.size;
  }

  get hosts(): readonly (readonly number[])[] {
    return this.#ends.hosts;
  }

  send(to: number, bytes: Uint8Array, stream: Stream = 0): Promise<void> {
    const { transport, members } = this.#ends;
    const sent = transport.send(members[to]!, this.#firstTag + stream * CALL_TAGS, bytes);
    // An algorithm that fails awaits no more, but what it has begun may fail as well.
    sent.catch(ignore);
    return sent;
  }

  recv(from: number, bytes: Uint8Array, stream: Stream = 0): Promise<void> {
    const { transport, members } = this.#ends;
    const awaited = this.#awaited;
    const received = transport.recv(members[from]!, this.#firstTag + stream * CALL_TAGS, bytes);
    awaited[from] = (awaited[from] ?? 0) + 1;
    const settle = (): void => {
      awaited[from] = (awaited[from] ?? 0) - 1;
    };
    received.then(settle, settle);
    return received;
  }

  /** Ranks from whom messages have not come that are awaited, ascending. */
  awaited(): readonly number[] {
    return [...this.#awaited.keys()].filter((rank) => (this.#awaited[rank] ?? 0) > 0);
  }
}

function ignore(): void {}
