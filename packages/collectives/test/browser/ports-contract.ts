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

export interface PortsContract {
  /** Of worlds whose ranks are workers, and of those on one thread. */
  readonly workers: readonly number[];
  readonly oneThread: readonly number[];
  /** With room for few messages. */
  readonly randomCalls: number;
}

export function portsContract({ workers: sizes, oneThread, randomCalls }: PortsContract): void {
  const workers = new PageWorkers();
  afterAll(() => workers.end());
  processGroupContract({
    name: 'ports between workers',
    sizes,
    run: (size, scenario) => workers.run(size, scenario),
  });
  processGroupContract({ name: 'ports on one thread', sizes: oneThread, run: runHere() });
  processGroupRandomCalls({
    name: 'ports with room for few messages',
    run: runHere({ maxUnexpectedBytes: 4096 }),
    sizes: [3],
    randomCalls,
  });
}

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
