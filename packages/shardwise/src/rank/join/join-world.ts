import type { RankData } from '../../launcher/rank-data.ts';
import { joinApart } from './join-apart.ts';
import { joinByModule } from './join-by-module.ts';
import { joinHosted } from './join-hosted.ts';
import { joinShm, joinThreads } from './join-shared-memory.ts';
import { joinTcp } from './join-tcp.ts';
import type { JoinedRank } from './joined-rank.ts';

/** Joins the world of a rank that `shardwise run` has started, in the way that the launcher has chosen. */
export async function joinWorld(data: RankData): Promise<JoinedRank> {
  const { way, rank, worldSize } = data;
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
