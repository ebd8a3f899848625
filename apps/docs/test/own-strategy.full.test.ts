import { createThreadsWorld } from '@shardwise/collectives';
import { strategySuite } from '@shardwise/testing';
import { settleRanks } from '@shardwise/testing/node';
import { testSuite } from '@shardwise/testing/vitest';
import { cases } from '../examples/terminal/own-strategy-case.ts';

testSuite(
  strategySuite({
    name: 'independent',
    cases,
    run: (size, scenario) =>
      settleRanks(size, new URL('../examples/terminal/own-strategy-rank.ts', import.meta.url), {
        world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
        data: scenario,
        timeoutMs: 500_000,
      }),
  }),
);
