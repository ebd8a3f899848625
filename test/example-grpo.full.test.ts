import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';
import { runShardwise } from './support/run-shardwise.ts';

const script = join(repository, 'examples', 'grpo', 'train.ts');

let cwd = '';
beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-grpo-'));
});
afterAll(() => rm(cwd, { recursive: true, force: true }));

/** What a run says of an update: the mean reward, its number in its rollout, and its least and largest ratio. */
interface Update {
  readonly step: number;
  readonly mean: number;
  readonly update: number;
  readonly least: number;
  readonly most: number;
}

/** The updates of a short run. */
async function updatesOf(ranks: number, ...options: readonly string[]): Promise<readonly Update[]> {
  const few =
    '--digits 1 --layers 1 --channels 32 --heads 2 --pretraining-steps 100 --pretraining-loss 0 --pretraining-batch-size 16 ' +
    '--learning-rate 1e-3 --problems-per-step 8 --num-generations 8 --steps 6 --log-every 1';
  const run = ['run', '--nproc', String(ranks), '--plain', '--run-dir', `on-${ranks}`];
  const { exitCode, output } = await runShardwise([...run, script, ...few.split(' '), ...options], {
    cwd,
  });
  expect(exitCode, output).toBe(0);
  return [
    ...output.matchAll(/^.*step (\d+): reward (\S+), update (\d+) .*ratios (\S+) to (\S+)$/gm),
  ].map(([, step, mean, update, least, most]) => ({
    step: Number(step),
    mean: Number(mean),
    update: Number(update),
    least: Number(least),
    most: Number(most),
  }));
}

describe('the example of GRPO', { timeout: 300_000 }, () => {
  it.each([1, 2])(
    'has ratios of exactly 1 at the first update of each rollout, and others later, on %i ranks',
    async (ranks) => {
      const updates = await updatesOf(ranks, '--num-iterations', '2', '--beta', '0.04');
      expect(updates).toHaveLength(6);
      for (const [index, update] of updates.entries()) {
        expect(update).toMatchObject({ step: index + 1, update: 1 + (index % 2) });
        // Some answers are right and some are not, so every update changes the weights.
        expect(update.mean).toBeGreaterThan(0);
        expect(update.mean).toBeLessThan(1);
        if (index % 2 === 0) expect(update).toMatchObject({ least: 1, most: 1 });
        else expect(update).not.toMatchObject({ least: 1, most: 1 });
      }
    },
  );
});
