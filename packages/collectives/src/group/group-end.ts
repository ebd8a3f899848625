import type { Transport } from '@shardwise/core/spec';
import { MAX_TAG } from '../call/checks.ts';
import { ranksByHost } from './topology.ts';

/**
 * Which ranks of a transport form a group, and which of its tags are theirs. The world has `id` 0. The groups
 * that its n-th split makes have id n, and those that the m-th split of such a group makes have n * 1024 + m. Two
 * groups with one id have no rank in common.
 */
export interface Membership {
  readonly transport: Transport;
  /** For each rank of the group, its rank in the transport. */
  readonly members: readonly number[];
  /** For each rank of the transport, the number of its host. */
  readonly hosts: readonly number[];
  readonly id: number;
}

export const MAX_SPLITS = 1023;
/** Ids are below this, so that tags stay below 2^53. */
export const MAX_ID: number = 2 ** 30;

/**
 * The messages of this many calls in a row have different tags. If a transport loses a message, its call waits
 * in vain, and does not take the message of the next call for its own.
 */
export const CALL_TAGS = 256;
const STREAMS = 2;

/**
 * Group `id` has this many tags, from `id * TAGS_PER_GROUP` on. The first ones are those of its calls. Then comes the
 * tag of the records by which ranks compare calls, and from MAX_TAG on the tags of the user's messages.
 */
export const TAGS_PER_GROUP: number = 2 * MAX_TAG;
const RECORDS = STREAMS * CALL_TAGS;

/** This rank's end of a group over a transport: what the messages of all calls of the group have in common. */
export interface GroupEnd {
  readonly transport: Transport;
  /** For each rank of the group, its rank in the transport. */
  readonly members: readonly number[];
  /** This rank's number in the group. */
  readonly rank: number;
  readonly size: number;
  /** The ranks of each host, ascending. The hosts stand in the order of their first ranks. */
  readonly hosts: readonly (readonly number[])[];
  readonly id: number;
  readonly firstTag: number;
  readonly recordTag: number;
  /** The tag of the texts that ranks exchange if their calls differ. */
  readonly nameTag: number;
}

export function groupEnd({ transport, members, hosts, id }: Membership): GroupEnd {
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
    nameTag: firstTag + RECORDS + 1,
  };
}

/** The transport's tag for the user's messages with `tag`. */
export function messageTag({ firstTag }: GroupEnd, tag: number): number {
  return firstTag + MAX_TAG + tag;
}
