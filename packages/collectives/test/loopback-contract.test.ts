import { createGroup, createLoopbackTransports, singleGroup } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import {
  processGroupCases,
  processGroupContract,
  processGroupProperties,
  RankFailure,
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { operationCases } from './operation-cases.ts';

async function play(group: ProcessGroup, scenario: ProcessGroupScenario): Promise<RankOutcome> {
  try {
    const value = await runProcessGroupScenario(group, scenario, { cases: operationCases });
    return { status: 'fulfilled', value };
  } catch (error) {
    return { status: 'rejected', error: new RankFailure(group.rank, reportOf(error)) };
  }
}

function reportOf(error: unknown): ConstructorParameters<typeof RankFailure>[1] {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { name, message, stack, code: undefined, fields: {} };
}

function runOnLoopback(
  size: number,
  scenario: ProcessGroupScenario,
): Promise<readonly RankOutcome[]> {
  const transports = createLoopbackTransports(size);
  return Promise.all(transports.map((transport) => play(createGroup(transport), scenario)));
}

const loopback = { name: 'messages on a loopback transport', run: runOnLoopback };
processGroupContract({ ...loopback, sizes: [1, 2, 3, 5, 8] });
processGroupProperties(loopback);
processGroupCases({ ...loopback, sizes: [2, 3, 4, 8] }, operationCases);

const single = {
  name: 'a single rank',
  sizes: [1],
  run: async (_: number, scenario: ProcessGroupScenario) => [await play(singleGroup(), scenario)],
};
processGroupContract(single);
processGroupCases(single, operationCases);
