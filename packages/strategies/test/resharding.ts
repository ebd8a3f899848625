import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { half, lossesSchema } from './ranks/reshard.ts';

/** One half of a training. `job` is what the ranks are told in addition to the folder. */
export interface Half {
  readonly ranks: number;
  readonly job: Readonly<Record<string, unknown>>;
}

/** A training whose two halves have different ranks or strategies. */
export interface Resharding {
  readonly saved: Half;
  readonly loaded: Half;
}

/** Runs the jobs on `size` ranks. Returns the mean losses of each. */
async function onRanks(
  size: number,
  url: URL,
  jobs: readonly unknown[],
): Promise<readonly (readonly number[])[]> {
  const found = await runRanks(size, url, {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    data: jobs,
    timeoutMs: 3_000_000,
  });
  const ranks = z.array(lossesSchema).parse(found);
  return jobs.map((_, job) =>
    Array.from(
      { length: half },
      (__, step) => ranks.reduce((sum, losses) => sum + (losses[job]?.[step] ?? NaN), 0) / size,
    ),
  );
}

/**
 * Returns the losses of the second halves, in the order of `reshardings`, and the folders in which the first halves
 * were saved. The module at `url` takes a list of jobs, each with a folder `to` or `from`.
 */
export async function secondHalves(
  url: URL,
  reshardings: readonly Resharding[],
): Promise<{
  readonly losses: readonly (readonly number[])[];
  readonly folderOf: (saved: Half) => string;
}> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-reshard-'));
  const folderOf = (saved: Half): string =>
    join(directory, JSON.stringify(saved).replaceAll(/[^\w]+/g, '-'));
  for (const [size, list] of Map.groupBy(reshardings, ({ saved }) => saved.ranks)) {
    const folders = new Map(list.map(({ saved }) => [folderOf(saved), saved.job]));
    await onRanks(
      size,
      url,
      [...folders].map(([to, job]) => ({ ...job, to })),
    );
  }
  const losses = new Map<Resharding, readonly number[]>();
  for (const [size, list] of Map.groupBy(reshardings, ({ loaded }) => loaded.ranks)) {
    const jobs = list.map(({ saved, loaded }) => ({ ...loaded.job, from: folderOf(saved) }));
    const found = await onRanks(size, url, jobs);
    list.forEach((each, index) => losses.set(each, found[index] ?? []));
  }
  return { losses: reshardings.map((each) => losses.get(each) ?? []), folderOf };
}

/** Returns the largest relative difference from the losses of one rank without a checkpoint. */
export function largestDifference(losses: readonly number[], alone: readonly number[]): number {
  const expected = alone.slice(half);
  if (losses.length !== expected.length) return NaN;
  const differences = expected.map((loss, step) => Math.abs((losses[step] ?? NaN) - loss) / loss);
  return differences.reduce((a, b) => Math.max(a, b), 0);
}
