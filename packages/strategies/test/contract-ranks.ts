import { createMesh, createThreadsWorld } from '@shardwise/collectives';
import { runStrategyScenario, type StrategyCases, type StrategyContract } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { runRanks } from '../../../test/support/run-ranks.ts';
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

/** What plays scenarios of the strategy contract with these cases. All ranks are in this thread. */
export const inThisThread =
  (cases: StrategyCases): Run =>
  async (size, scenario) => {
    const found = await onRanks(
      size,
      ({ group, device }) => {
        // The meshes of the scenario record the calls of this group. Its calls are parts of theirs, which have their order.
        group.orderCalls?.(null);
        return runStrategyScenario({ group, device, createMesh }, scenario, cases);
      },
      onCpu,
    );
    return found.map((value) => ({ status: 'fulfilled', value }));
  };
