import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing';
import { z } from 'zod';
import type { TaskName } from './ranks/models.ts';
import { half, type Job, lossesSchema, type StrategyName } from './ranks/reshard.ts';

/** A training whose first half has other ranks and another strategy than its second. */
export interface Resharding {
  readonly task: TaskName;
  readonly saved: StrategyName;
  readonly savedOn: number;
  readonly loaded: StrategyName;
  readonly loadedOn: number;
}

/** Does the jobs on `size` ranks, and returns the mean losses of each. */
async function onRanks(
  size: number,
  jobs: readonly Job[],
): Promise<readonly (readonly number[])[]> {
  if (jobs.length === 0) return [];
  const found = await spawnRanks(size, new URL('./ranks/reshard.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    data: jobs,
    timeoutMs: 500_000,
  });
  const ranks = z.array(lossesSchema).parse(found);
  return jobs.map((_, job) =>
    Array.from(
      { length: half },
      (__, step) => ranks.reduce((sum, losses) => sum + (losses[job]?.[step] ?? NaN), 0) / size,
    ),
  );
}

/** The losses of the second halves, in the order of `reshardings`. */
export async function secondHalves(
  reshardings: readonly Resharding[],
): Promise<readonly (readonly number[])[]> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-reshard-'));
  const folderOf = ({ task, saved, savedOn }: Resharding): string =>
    join(directory, `${saved}-${savedOn}-${task}`.replaceAll(' ', '-'));
  for (const [size, list] of Map.groupBy(reshardings, ({ savedOn }) => savedOn)) {
    const jobs = new Map(
      list.map((each) => [
        folderOf(each),
        { task: each.task, strategy: each.saved, to: folderOf(each) },
      ]),
    );
    await onRanks(size, [...jobs.values()]);
  }
  const losses = new Map<Resharding, readonly number[]>();
  for (const [size, list] of Map.groupBy(reshardings, ({ loadedOn }) => loadedOn)) {
    const jobs = list.map((each) => ({
      task: each.task,
      strategy: each.loaded,
      from: folderOf(each),
    }));
    const found = await onRanks(size, jobs);
    list.forEach((each, index) => losses.set(each, found[index] ?? []));
  }
  return reshardings.map((each) => losses.get(each) ?? []);
}

/** The largest relative difference from what one rank has without a checkpoint. */
export function largestDifference(losses: readonly number[], alone: readonly number[]): number {
  const expected = alone.slice(half);
  if (losses.length !== expected.length) return NaN;
  const differences = expected.map((loss, step) => Math.abs((losses[step] ?? NaN) - loss) / loss);
  return differences.reduce((a, b) => Math.max(a, b), 0);
}
