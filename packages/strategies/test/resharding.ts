import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { meanOverRanks } from './as-one-rank.ts';

/** The number of updates before the checkpoint, and after it. */
export const half = 10;

/** One half of a training. `job` is how the ranks train. */
export interface Half<Job> {
  readonly ranks: number;
  readonly job: Job;
}

/** A training whose two halves have different ranks or strategies. */
export interface Resharding<Job> {
  readonly saved: Half<Job>;
  readonly loaded: Half<Job>;
}

/** The folder that the first half saves to, or that the second half continues from. */
interface Folder {
  readonly to?: string;
  readonly from?: string;
}

/** Runs half of a training on this rank. Returns the losses of its part of each batch. */
export type RunHalf<Job> = (
  place: RankInThread,
  job: Job,
  folder: Folder,
) => Promise<readonly number[]>;

/**
 * Returns the losses of the second halves, in the order of `reshardings`, and the folders in which the first halves
 * were saved.
 */
export async function secondHalves<Job>(
  run: RunHalf<Job>,
  reshardings: readonly Resharding<Job>[],
): Promise<{
  readonly losses: readonly (readonly number[])[];
  readonly folderOf: (saved: Half<Job>) => string;
}> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-reshard-'));
  const folderOf = (saved: Half<Job>): string =>
    join(directory, JSON.stringify(saved).replaceAll(/[^\w]+/g, '-'));
  const lossesOf = async ({ ranks, job }: Half<Job>, folder: Folder): Promise<number[]> => {
    const found = await onRanks(ranks, (place) => run(place, job, folder), onCpu);
    return meanOverRanks(found);
  };
  for (const [to, saved] of new Map(reshardings.map(({ saved }) => [folderOf(saved), saved])))
    await lossesOf(saved, { to });
  const losses: (readonly number[])[] = [];
  for (const { saved, loaded } of reshardings)
    losses.push(await lossesOf(loaded, { from: folderOf(saved) }));
  return { losses, folderOf };
}

/** Returns the largest relative difference from the losses of one rank without a checkpoint. */
export function largestDifference(losses: readonly number[], alone: readonly number[]): number {
  const expected = alone.slice(half);
  if (losses.length !== expected.length) return NaN;
  const differences = expected.map((loss, step) => Math.abs((losses[step] ?? NaN) - loss) / loss);
  return differences.reduce((a, b) => Math.max(a, b), 0);
}
