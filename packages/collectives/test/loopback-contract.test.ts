import { createGroup, createLoopbackTransports, singleGroup } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import {
  processGroupContract,
  RankFailure,
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';

async function play(group: ProcessGroup, scenario: ProcessGroupScenario): Promise<RankOutcome> {
  try {
    const value = await runProcessGroupScenario(group, scenario);
    return { status: 'fulfilled', value };
  } catch (error) {
    return { status: 'rejected', error: new RankFailure(group.rank, reportOf(error)) };
  }
}

function reportOf(error: unknown): ConstructorParameters<typeof RankFailure>[1] {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { name, message, stack, code: undefined, fields: {} };
}

processGroupContract({
  name: 'messages on a loopback transport',
  run: (size, scenario) =>
    Promise.all(
      createLoopbackTransports(size).map((transport) => play(createGroup(transport), scenario)),
    ),
});

processGroupContract({
  name: 'a single rank',
  sizes: [1],
  run: async (_, scenario) => [await play(singleGroup(), scenario)],
});
