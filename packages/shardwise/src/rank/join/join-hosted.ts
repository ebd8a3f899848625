import { createGroup, hostedTransport } from '@shardwise/collectives';
import type { HostedWay } from '../../launcher/rank-data.ts';
import { joinShm, joinThreads } from './join-shared-memory.ts';
import { meetByTcp } from './join-tcp.ts';
import type { JoinedRank } from './joined-rank.ts';

/** Joins the ranks of this host by the memory that they share, and the other ranks by TCP. */
export async function joinHosted(way: HostedWay, rank: number): Promise<JoinedRank> {
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
  const group = createGroup(hostedTransport({ local, remote, hosts }), { hosts });
  return { group, arena };
}
