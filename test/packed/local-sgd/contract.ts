import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { runSuite, strategySuite, type Suite } from '@shardwise/testing';
import { settleRanks, spawnRanks } from '@shardwise/testing/node';
import { cases } from './cases.ts';
import type { Part } from './checkpoint-rank.ts';

const suite = strategySuite({
  name: 'local SGD',
  cases,
  sizes: [1, 2],
  run: (size, scenario) =>
    settleRanks(size, new URL('contract-rank.ts', import.meta.url), {
      world: createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 }),
      data: scenario,
      timeoutMs: 240_000,
    }),
});

function train(data: Part): Promise<readonly unknown[]> {
  const world = createThreadsWorld({ size: 2, arenaBytes: 16 * 1024 * 1024 });
  return spawnRanks(2, new URL('checkpoint-rank.ts', import.meta.url), { world, data });
}

/**
 * Saves in the middle of a period. The optimizer and the parameters alone do not contain the position in the period.
 */
async function resumes(): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'local-sgd-'));
  try {
    const whole = await train({ first: 0, stop: 8 });
    await train({ first: 0, stop: 4, to: directory });
    const rest = await train({ first: 4, stop: 8, from: directory });
    const expected = whole.map((losses) => (Array.isArray(losses) ? losses.slice(4) : losses));
    const [found, wanted] = [JSON.stringify(rest), JSON.stringify(expected)];
    if (found !== wanted) throw new Error(`losses ${found} where ${wanted} are expected`);
  } finally {
    await rm(directory, { recursive: true });
  }
}

const own: Suite = {
  name: 'a checkpoint of local SGD',
  tests: [{ groups: [], name: 'is resumed bit for bit in the middle of a period', run: resumes }],
};

for (const each of [suite, own]) {
  const passes = await runSuite(each, ({ groups, name }, outcome) => {
    console.log(outcome.status, [each.name, ...groups, name].join(' > '));
    if (outcome.status === 'failed') console.error(outcome.error);
  });
  if (!passes) process.exitCode = 1;
}
