import { createThreadsWorld } from '@shardwise/collectives';
import { type StrategyScenario } from '@shardwise/testing';
import { type RankOutcome } from '@shardwise/testing/ranks';
import { runRanks as runOnThreads } from '../../../test/support/run-ranks.ts';
import { trainingMs } from './time-limits.ts';

/** Plays a scenario of the strategy contract. Each rank is a thread. */
export async function runRanks(
  size: number,
  scenario: StrategyScenario,
): Promise<readonly RankOutcome[]> {
  const found = await runOnThreads(size, new URL('./ranks/contract.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    data: scenario,
    timeoutMs: trainingMs,
  });
  return found.map((value) => ({ status: 'fulfilled', value }));
}
