import { createGroup, createLoopbackTransports, singleGroup } from '@shardwise/collectives';
import {
  groupCasesSuite,
  processGroupSuite,
  randomWorldsSuite,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { playScenario } from './play-scenario.ts';
import { operationCases } from './operation-cases.ts';

function runOnLoopback(
  size: number,
  scenario: ProcessGroupScenario,
): Promise<readonly RankOutcome[]> {
  const transports = createLoopbackTransports(size);
  return Promise.all(transports.map((transport) => playScenario(createGroup(transport), scenario)));
}

const loopback = { name: 'messages on a loopback transport', run: runOnLoopback };
testSuite(processGroupSuite({ ...loopback, sizes: [1, 2, 3, 5, 8] }));
testSuite(randomWorldsSuite(loopback));
testSuite(groupCasesSuite({ ...loopback, sizes: [2, 3, 4, 8] }, operationCases));

const single = {
  name: 'a single rank',
  sizes: [1],
  run: async (_: number, scenario: ProcessGroupScenario) => [
    await playScenario(singleGroup(), scenario),
  ],
};
testSuite(processGroupSuite(single));
testSuite(groupCasesSuite(single, operationCases));
