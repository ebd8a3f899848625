import { processGroupSuite, randomCallsSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { createHosts, type TestHosts } from '@shardwise/testing/hosts';
import { afterAll, beforeAll, describe } from 'vitest';
import { slowly, titled, unavailable } from './availability.ts';
import { HostRanks } from './host-ranks.ts';

describe.skipIf(unavailable !== undefined)(titled('2 hosts x 2 ranks'), slowly, () => {
  let made: TestHosts;
  let ranks: HostRanks;

  beforeAll(async () => {
    made = await createHosts(2);
    ranks = new HostRanks(made.hosts, 2);
  });

  afterAll(async () => {
    await ranks[Symbol.asyncDispose]();
    await made[Symbol.asyncDispose]();
  });

  testSuite(
    processGroupSuite({
      name: 'shared memory inside the hosts, tcp between them',
      sizes: [4],
      run: async (_, scenario) => (await ranks.run({ kind: 'scenario', scenario })).outcomes,
    }),
  );

  testSuite(
    randomCallsSuite({
      name: 'tcp between all ranks',
      sizes: [4],
      run: async (_, scenario) => {
        const { outcomes } = await ranks.run(
          { kind: 'scenario', scenario },
          { sharedMemory: false },
        );
        return outcomes;
      },
    }),
  );
});
