import type { MemberStatus } from '../protocol/run-status.ts';
import type { Peer } from './peer.ts';

const places = {
  admitted: 'arriving',
  waiting: 'waiting for the state',
  ready: 'training',
  behind: 'catching up',
  auditing: 'auditing',
} as const satisfies Record<Peer['place']['kind'], MemberStatus['place']>;

export function memberStatus(
  { number, name, place, updates, speed, loss, link }: Peer,
  allSamples: number,
  way: MemberStatus['link'],
): MemberStatus {
  return {
    number,
    name,
    place: places[place.kind],
    updates,
    samplesPerSecond: speed.perSecond,
    share: allSamples === 0 ? 0 : speed.samples / allSamples,
    link: way,
    linkMs: link.roundTripMs ?? null,
    loss,
  };
}
