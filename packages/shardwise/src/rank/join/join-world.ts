import {
  createGroup,
  hostedTransport,
  singleGroup,
  unavailableGroup,
} from '@shardwise/collectives';
import type { RankData } from '../../launcher/ranks/rank-data.ts';
import type { HostedWay, JoinWay } from '../../launcher/transports/join-way.ts';
import { countTraffic } from './count-traffic.ts';
import { joinByModule } from './join-by-module.ts';
import { joinShm, joinThreads } from './join-shared-memory.ts';
import { joinTcp, meetByTcp } from './join-tcp.ts';
import type { JoinedRank } from './joined-rank.ts';

/** Joins the world of a rank that `shardwise run` has started, in the way that the launcher has chosen. */
export async function joinWorld(
  way: JoinWay,
  { rank, worldSize }: Pick<RankData, 'rank' | 'worldSize'>,
): Promise<JoinedRank> {
  switch (way.kind) {
    case 'threads':
      return joinThreads(way.world, rank);
    case 'shm':
      return joinShm(way.world, rank);
    case 'tcp':
      return joinTcp(way.meeting, { rank, size: worldSize }, way.hosts);
    case 'module':
      return joinByModule(way, rank);
    case 'apart':
      return joinApart(rank, worldSize);
    case 'hosted':
      return joinHosted(way, rank);
    default:
      return way satisfies never;
  }
}

const ADVICE = 'Train by parameterServer(), which needs no calls, or run without --worker-restarts';

/** Makes the group of a rank that does not talk to the other ranks. It waits for nobody. */
function joinApart(rank: number, size: number): JoinedRank {
  const group = size === 1 ? singleGroup() : unavailableGroup(rank, size, ADVICE);
  return { group, arena: undefined };
}

/** Joins the ranks of this host by the memory that they share, and the other ranks by TCP. */
async function joinHosted(way: HostedWay, rank: number): Promise<JoinedRank> {
  const { local: localWay, hosts, meeting } = way;
  const host = hosts[rank];
  const localRank = hosts.slice(0, rank).filter((other) => other === host).length;
  const size = hosts.length;
  const peers = hosts.flatMap((other, peer) => (other === host ? [] : [peer]));
  const { group: local, arena } =
    localWay.kind === 'threads'
      ? joinThreads(localWay.world, localRank)
      : joinShm(localWay.world, localRank);
  const remote = await meetByTcp(meeting, { rank, size, peers });
  const traffic = { sentBytes: 0, receivedBytes: 0 };
  const counted = { ...countTraffic(remote, traffic), ended: remote.ended };
  const group = createGroup(hostedTransport({ local, remote: counted, hosts }), { hosts });
  return { group, arena, traffic };
}
