import { createMesh, createThreadsWorld } from '@shardwise/collectives';
import { runStrategyScenario, type StrategyContract } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { strategyCases } from './ranks/contract-cases.ts';
import { trainingMs } from './time-limits.ts';

type Run = StrategyContract['run'];

/** Plays a scenario of the strategy contract. Each rank is a thread. */
export const onThreads: Run = async (size, scenario) => {
  const found = await runRanks(size, new URL('./ranks/contract.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    data: scenario,
    timeoutMs: trainingMs,
  });
  return found.map((value) => ({ status: 'fulfilled', value }));
};

/** Plays a scenario of the strategy contract. All ranks are in this thread. */
export const inThisThread: Run = async (size, scenario) => {
  const found = await onRanks(
    size,
    ({ group, device }) => {
      // The meshes of the scenario record the calls of this group. Its calls are parts of theirs, which have their order.
      group.orderCalls?.(null);
      return runStrategyScenario({ group, device, createMesh }, scenario, strategyCases);
    },
    onCpu,
  );
  return found.map((value) => ({ status: 'fulfilled', value }));
};
