import {
  connectPorts,
  createGroup,
  portTransport,
  type PortTransportOptions,
} from '@shardwise/collectives';
import {
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll } from 'vitest';
import { playScenario } from '../play-scenario.ts';
import { PageWorkers } from './page-workers.ts';

export interface PortsContract {
  /**
   * The sizes of the worlds whose ranks are workers. `oneThread` has the sizes of those with all ranks on one thread.
   */
  readonly workers: readonly number[];
  readonly oneThread: readonly number[];
  /** The number of random calls in a world with room for few messages. */
  readonly randomCalls: number;
}

export function portsContract({ workers: sizes, oneThread, randomCalls }: PortsContract): void {
  const workers = new PageWorkers();
  afterAll(() => workers.end());
  testSuite(
    processGroupSuite({
      name: 'ports between workers',
      sizes,
      run: (size, scenario) => workers.run(size, scenario),
    }),
  );
  testSuite(processGroupSuite({ name: 'ports on one thread', sizes: oneThread, run: runHere() }));
  testSuite(
    randomCallsSuite({
      name: 'ports with room for few messages',
      run: runHere({ maxUnexpectedBytes: 4096 }),
      sizes: [3],
      randomCalls,
    }),
  );
}

/** Runs all ranks on this thread. */
function runHere(options: Partial<PortTransportOptions> = {}) {
  return (size: number, scenario: ProcessGroupScenario): Promise<RankOutcome[]> => {
    const { ranks } = connectPorts(size);
    const outcomes = ranks.map((ports, rank) =>
      playScenario(createGroup(portTransport({ rank, size, ports, ...options })), scenario),
    );
    return Promise.all(outcomes);
  };
}
