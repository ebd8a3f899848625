import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { runStrategyScenario, type StrategyScenario } from '@shardwise/testing';
import type { RankContext } from '@shardwise/testing/ranks';
import { cases } from './own-strategy-case.ts';

/** Trains as one of the ranks of the suite, which starts it in a thread. */
export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, StrategyScenario>): Promise<unknown> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  const device = await cpu({ memory: world.memory, ...region });
  return runStrategyScenario({ group, device }, data, cases);
}
