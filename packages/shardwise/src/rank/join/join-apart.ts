import { unavailableGroup, singleGroup } from '@shardwise/collectives';
import type { JoinedRank } from './joined-rank.ts';

const ADVICE = 'Train by parameterServer(), which needs no calls, or run without --worker-restarts';

/** Makes the group of a rank that does not talk to the other ranks. It waits for nobody. */
export function joinApart(rank: number, size: number): JoinedRank {
  const group = size === 1 ? singleGroup() : unavailableGroup(rank, size, ADVICE);
  return { group, arena: undefined };
}
