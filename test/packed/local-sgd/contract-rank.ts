import type { ThreadsWorld } from '@shardwise/collectives';
import { runStrategyScenario, type StrategyScenario } from '@shardwise/testing';
import { type RankContext } from '@shardwise/testing/ranks';
import { cases } from './cases.ts';
import { join } from './join.ts';

export async function main(context: RankContext<ThreadsWorld, StrategyScenario>): Promise<unknown> {
  return runStrategyScenario(await join(context), context.data, cases);
}
