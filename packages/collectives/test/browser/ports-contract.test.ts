import {
  connectPorts,
  createGroup,
  portTransport,
  type PortTransportOptions,
} from '@shardwise/collectives';
import {
  processGroupContract,
  processGroupRandomCalls,
  RankFailure,
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { afterAll } from 'vitest';
import { PageWorkers } from './page-workers.ts';

const workers = new PageWorkers();
afterAll(() => workers.end());

/** All ranks on one thread. */
function runHere(options: Partial<PortTransportOptions> = {}) {
  return (size: number, scenario: ProcessGroupScenario): Promise<RankOutcome[]> => {
    const { ranks } = connectPorts(size);
    const outcomes = ranks.map(async (ports, rank): Promise<RankOutcome> => {
      const group = createGroup(portTransport({ rank, size, ports, ...options }));
      try {
        return { status: 'fulfilled', value: await runProcessGroupScenario(group, scenario) };
      } catch (error) {
        const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
        const report = { name, message, stack, code: undefined, fields: {} };
        return { status: 'rejected', error: new RankFailure(rank, report) };
      } finally {
        group.close();
      }
    });
    return Promise.all(outcomes);
  };
}

processGroupContract({
  name: 'ports between workers',
  sizes: [2, 3],
  run: (size, scenario) => workers.run(size, scenario),
});
processGroupContract({ name: 'ports on one thread', sizes: [1, 2, 5], run: runHere() });
processGroupRandomCalls({
  name: 'ports with room for few messages',
  run: runHere({ maxUnexpectedBytes: 4096 }),
  sizes: [3],
  randomCalls: 150,
});
