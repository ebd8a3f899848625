import { createGroup } from '@shardwise/collectives';
import {
  processGroupSuite,
  RankFailure,
  type RankOutcome,
  reportOf,
  runProcessGroupScenario,
  runSuite,
  transportSuite,
} from '@shardwise/testing';
import { connectInProcess } from './in-process-transport.ts';

const suites = [
  transportSuite({ name: 'in-process', open: async (size) => connectInProcess(size) }),
  processGroupSuite({
    name: 'a group of in-process',
    sizes: [1, 2, 3],
    run: (size, scenario) =>
      Promise.all(
        connectInProcess(size).map(async (transport): Promise<RankOutcome> => {
          const group = createGroup(transport);
          try {
            return { status: 'fulfilled', value: await runProcessGroupScenario(group, scenario) };
          } catch (error) {
            return { status: 'rejected', error: new RankFailure(transport.rank, reportOf(error)) };
          } finally {
            group.close();
          }
        }),
      ),
  }),
];

for (const suite of suites) {
  const passes = await runSuite(suite, ({ groups, name }, outcome) => {
    console.log(outcome.status, [suite.name, ...groups, name].join(' > '));
    if (outcome.status === 'failed') console.error(outcome.error);
  });
  if (!passes) process.exitCode = 1;
}
