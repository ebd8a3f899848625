import { apartGroup, singleGroup } from '@shardwise/collectives';
import type { JoinedRank } from './joined-rank.ts';

const ADVICE = 'Train by parameterServer(), which needs no calls, or run without --worker-restarts';

/** Waits for nobody. */
export function joinApart(rank: number, size: number): JoinedRank {
  const group = size === 1 ? singleGroup() : apartGroup(rank, size, ADVICE);
  return { group, arena: undefined };
}
