import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { repository } from './documents.ts';
import { runShardwise } from './run-shardwise.ts';

const script = join(repository, 'examples', 'grpo', 'train.ts');

/** What a run of `examples/grpo` says of an update: the mean reward, its number in its rollout, and its least and largest ratio. */
export interface Update {
  readonly step: number;
  readonly mean: number;
  readonly update: number;
  readonly least: number;
  readonly most: number;
}

/** The updates of a run, all of which it prints. */
export async function updatesOf(
  ranks: number,
  options: readonly string[],
): Promise<readonly Update[]> {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-grpo-'));
  try {
    const run = ['run', '--nproc', String(ranks), '--plain', script, '--log-every', '1'];
    const { exitCode, output } = await runShardwise([...run, ...options], { cwd });
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
  } finally {
    await rm(cwd, { recursive: true, force: true });
  }
}

/** The mean reward of some updates. */
export function meanReward(updates: readonly Update[]): number {
  return updates.reduce((sum, { mean }) => sum + mean, 0) / updates.length;
}
