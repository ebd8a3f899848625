import { rm } from 'node:fs/promises';
import { ShardwiseError } from '@shardwise/core';
import { displayPath } from '../text/display-path.ts';
import { describeVerdict } from './describe-verdict.ts';
import { findBlame } from './find-blame.ts';
import { flightDirectory } from './flight-directory.ts';
import { readDumps } from './read-dumps.ts';

/** What the dumps of a run that failed say; nothing where they say nothing. */
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
    // No rank has come as far as to record a call.
    if (ShardwiseError.isInstance(error)) return [];
    throw error;
  }
}

/** Of a run that ended well, and before one starts. */
export async function removeDumps(runDirectory: string): Promise<void> {
  await rm(flightDirectory(runDirectory), { recursive: true, force: true });
}
