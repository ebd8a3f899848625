import type { Peer } from './peer.ts';

/** A member, as the page of a coordinator shows it. */
export interface MemberStatus {
  readonly number: number;
  readonly name: string;
  /** `training`, or what it waits for. */
  readonly place: 'training' | 'catching up' | 'waiting for the state' | 'arriving';
  /** The number of rounds with an update of this member. */
  readonly updates: number;
  readonly samplesPerSecond: number;
  /** Its part of the samples of all who are there, from 0 to 1. */
  readonly share: number;
  /** How long a message takes there and back. Null: not yet measured. */
  readonly linkMs: number | null;
  readonly loss: number | null;
}

/** What a coordinator knows of its run. */
export interface RunStatus {
  /** The number of rounds that have ended. */
  readonly completed: number;
  readonly members: readonly MemberStatus[];
  /** The bytes that were passed on from member to member. */
  readonly relayedBytes: number;
}

const places = {
  admitted: 'arriving',
  waiting: 'waiting for the state',
  ready: 'training',
  behind: 'catching up',
} as const satisfies Record<Peer['place']['kind'], MemberStatus['place']>;

export function memberStatus(
  { number, name, place, updates, speed, loss, link }: Peer,
  allSamples: number,
): MemberStatus {
  return {
    number,
    name,
    place: places[place.kind],
    updates,
    samplesPerSecond: speed.perSecond,
    share: allSamples === 0 ? 0 : speed.samples / allSamples,
    linkMs: link.roundTripMs ?? null,
    loss,
  };
}
