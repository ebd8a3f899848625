import { createThreadsWorld } from '@shardwise/collectives';
import { type StrategyScenario } from '@shardwise/testing';
import { type RankOutcome } from '@shardwise/testing/ranks';
import { settleRanks } from '@shardwise/testing/node';
import { trainingMs } from './time-limits.ts';

/** Plays a scenario of the strategy contract. Each rank is a thread. */
export function runRanks(
  size: number,
  scenario: StrategyScenario,
): Promise<readonly RankOutcome[]> {
  return settleRanks(size, new URL('./ranks/contract.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
    data: scenario,
    timeoutMs: trainingMs,
  });
}
