import { processGroupSuite, randomCallsSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { afterAll, beforeAll, describe } from 'vitest';
import { slowly, titled, unavailable } from './availability.ts';
import { TwoHosts } from './two-hosts.ts';

describe.skipIf(unavailable !== undefined)(titled('2 hosts x 2 ranks'), slowly, () => {
  let two: TwoHosts;
  beforeAll(async () => {
    two = await TwoHosts.create();
  });
  afterAll(() => two[Symbol.asyncDispose]());

  testSuite(
    processGroupSuite({
      name: 'shared memory inside the hosts, tcp between them',
      sizes: [4],
      run: async (_, scenario) => (await two.ranks.run({ kind: 'scenario', scenario })).outcomes,
    }),
  );

  testSuite(
    randomCallsSuite({
      name: 'tcp between all ranks',
      sizes: [4],
      run: async (_, scenario) => {
        const { outcomes } = await two.ranks.run(
          { kind: 'scenario', scenario },
          { sharedMemory: false },
        );
        return outcomes;
      },
    }),
  );
});
