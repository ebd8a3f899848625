import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ShardwiseError } from '@shardwise/core/extend';
import { displayPath } from '../text/display-path.ts';
import { describeVerdict } from './describe-verdict.ts';
import { findBlame } from './find-blame.ts';
import { readDumps } from './read-dumps.ts';
import { flightDirectory } from './record-flight.ts';

/** Returns what the dumps of a failed run tell, as lines. Returns no lines if they tell nothing. */
export async function runVerdict(runDirectory: string): Promise<readonly string[]> {
  const directory = flightDirectory(runDirectory);
  try {
    const { dumps, unreadable } = await readDumps([directory]);
    const verdict = findBlame(dumps);
    if (verdict.kind === 'consistent') return [];
    return [
      ...describeVerdict(verdict, unreadable),
      `  (from the ranks' last calls: shardwise blame ${displayPath(directory)})`,
    ];
  } catch (error) {
    // No rank got far enough to record a call.
    if (ShardwiseError.isInstance(error)) return [];
    throw error;
  }
}

/** Removes the dumps of ranks before these ranks start again, so that old dumps are not taken for new ones. */
export async function removeDumpsOf(
  runDirectory: string,
  isOld: (rank: number) => boolean,
): Promise<void> {
  const directory = flightDirectory(runDirectory);
  const names = await readdir(directory).catch(() => []);
  for (const name of names) {
    const [, rank] = /^rank-(\d+)\.json/.exec(name) ?? [];
    if (rank !== undefined && isOld(Number(rank))) await rm(join(directory, name), { force: true });
  }
}

/** Removes all dumps of a run. It is called before a run starts and after it has ended well. */
export async function removeDumps(runDirectory: string): Promise<void> {
  await rm(flightDirectory(runDirectory), { recursive: true, force: true });
}
