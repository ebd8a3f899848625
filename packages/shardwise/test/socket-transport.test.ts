import { createGroup } from '@shardwise/collectives';
import { MemoryStore } from '@shardwise/collectives/node';
import type { Transport } from '@shardwise/core/spec';
import {
  processGroupSuite,
  RankFailure,
  type RankOutcome,
  reportOf,
  runProcessGroupScenario,
  transportSuite,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import connectRank from '../../../apps/docs/examples/terminal/socket-transport.ts';

/** Connects ranks of this thread, as `shardwise run --transport` does with ranks that are processes. */
async function connectAll(size: number): Promise<readonly Transport[]> {
  const store = new MemoryStore();
  const hosts = Array.from({ length: size }, () => 0);
  const shared = { size, hosts, host: '127.0.0.1', store, secret: 'a secret', timeoutMs: 10_000 };
  return Promise.all(hosts.map(async (_, rank) => connectRank({ rank, ...shared })));
}

testSuite(transportSuite({ name: 'the transport over sockets of the guide', open: connectAll }));

testSuite(
  processGroupSuite({
    name: 'a group over the sockets of the guide',
    sizes: [1, 2, 3],
    run: async (size, scenario) => {
      const transports = await connectAll(size);
      return Promise.all(
        transports.map(async (transport): Promise<RankOutcome> => {
          const group = createGroup(transport);
          try {
            return { status: 'fulfilled', value: await runProcessGroupScenario(group, scenario) };
          } catch (error) {
            return { status: 'rejected', error: new RankFailure(transport.rank, reportOf(error)) };
          } finally {
            group.close();
          }
        }),
      );
    },
  }),
);
