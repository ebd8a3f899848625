import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { runStrategyScenario, type StrategyScenario } from '@shardwise/testing';
import { type RankContext } from '@shardwise/testing/ranks';
import { strategyCases } from './contract-cases.ts';
import { compositionCases, scheduleCases } from './three-dimension-cases.ts';

/** Plays one rank's part of a scenario of the strategy contract, on a thread. */
export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, StrategyScenario>): Promise<unknown> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  const device = await cpu({ memory: world.memory, ...region });
  const cases = { ...strategyCases, ...scheduleCases, ...compositionCases };
  return runStrategyScenario({ group, device, createMesh }, data, cases);
}
