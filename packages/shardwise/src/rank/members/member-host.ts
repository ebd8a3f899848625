import { ConfigError, type ProcessGroup } from '@shardwise/core/extend';
import type { MemberPlace } from '../../launcher/ranks/rank-data.ts';
import type { MembersWay } from '../../launcher/transports/join-way.ts';
import { AgreedStop } from '../agreed-stop.ts';
import { joinTcp } from '../join/join-tcp.ts';
import type { LauncherLink } from '../launcher-link.ts';
import type { RankHost } from '../rank-host.ts';
import { MemberLink } from './member-link.ts';

/** More than the memberships of a generation. */
const MAX_MEMBERSHIPS = 2 ** 32;

/** The host of a rank in one membership. */
export interface MemberHostParts {
  readonly link: LauncherLink;
  readonly way: MembersWay;
  readonly members: MemberLink;
  readonly epoch: number;
  readonly place: MemberPlace;
  /** Says that calls of this membership cannot end. */
  readonly signal: AbortSignal;
  readonly isRecorded: boolean;
}

/** Returns the host of a rank in one membership, whose calls end when the signal says that they cannot. */
export function memberHost(parts: MemberHostParts): RankHost {
  const { link, way, members, epoch, signal, isRecorded } = parts;
  const { data } = link;
  const { rank, worldSize, hosts } = parts.place;
  return {
    rank,
    localRank: data.localRank,
    transport: data.transport,
    isRecorded,
    join: () => {
      // The launcher alone says who is lost, and a thread for heartbeats would take longer to start than all else.
      const watched = { signal, heartbeat: false } as const;
      // A run of weeks has more memberships than the store has room for their addresses.
      const place = { rank, size: worldSize, ...watched, withdrawAddress: true };
      const { meeting } = way;
      // Hosts keep their store when all ranks start again, and memberships count anew.
      const meetingEpoch = meeting.epoch * MAX_MEMBERSHIPS + epoch;
      return joinTcp({ ...meeting, epoch: meetingEpoch }, place, hosts);
    },
    enter: async ({ group, traffic }) => {
      const stop = new AgreedStop(group);
      void members.stopped.then(() => stop.request());
      const end = (): void => group.close(signal.reason);
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
      return {
        runDirectory: data.runDirectory,
        checkpointDirectory: data.checkpointDirectory,
        resumeDirectory: data.resumeDirectory,
        serversData: data.servers,
        traffic,
        stop,
        // The launcher knows the rank by the number that it was started with, and gives reports their rank.
        send: (message) => link.send({ ...message, rank: data.rank }),
        onClose: () => link.close(),
      };
    },
  };
}

/** Returns the host of a rank whose script calls init() and not survive(), so that it ends with the others. */
export function boundHost(link: LauncherLink, way: MembersWay, own?: ProcessGroup): RankHost {
  if (own !== undefined) throw ownGroupError();
  const members = new MemberLink(link, undefined);
  const host = members.after(-1).then((membership) => {
    const { place, epoch } = membership;
    const { signal } = members.watch(epoch);
    if (place === undefined) throw new RangeError('a rank without a place');
    return memberHost({ link, way, members, epoch, place, signal, isRecorded: true });
  });
  // `join` awaits it, and throws its error.
  host.catch(() => undefined);
  const { rank, localRank, transport } = link.data;
  return {
    rank,
    localRank,
    transport,
    isRecorded: true,
    join: async () => (await host).join(),
    enter: async (joined) => (await host).enter(joined),
  };
}

/** The error for a group of the script where ranks can be lost: no other group can be made of the ranks that are left. */
export function ownGroupError(): ConfigError {
  return new ConfigError({
    asked: 'a group of the script under --min-nproc',
    found: 'no group can be made of the ranks that are left when one is lost',
    todo: 'Leave out the group, or run without --min-nproc',
  });
}
