import { readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { ConfigError } from '@shardwise/core/extend';
import { isAddress } from '@shardwise/core/node';
import { readableAt, writableAt } from '../checkpoint/places/checkpoint-place.ts';
import { checkpointsAt } from './resume-points.ts';

/** The file of a run directory that says where the checkpoints of the run are, if they are not below it. */
const NOTE = 'checkpoint-directory';

/**
 * Returns the place that `--checkpoint-dir` names: an absolute path, or an address. Throws ConfigError for an address to
 * which nothing can be written.
 */
export function checkpointPlace(asked: string | undefined): string | undefined {
  if (asked === undefined) return undefined;
  return isAddress(asked) ? writableAt(asked).directory : resolve(asked);
}

/**
 * Throws ConfigError if another run has saved to the place, unless this one continues it: both would remove each other's
 * checkpoints.
 */
export async function requireOwnCheckpoints(
  place: string | undefined,
  resumed: string | undefined,
): Promise<void> {
  if (place === undefined) return;
  const isContinued = resumed !== undefined && `${resumed}/`.startsWith(`${place}/`);
  const [latest] = isContinued ? [] : await checkpointsAt(place);
  if (latest === undefined) return;
  throw new ConfigError(
    {
      asked: `Saving checkpoints to ${place}`,
      found: `those of another run, such as ${latest}`,
      todo: 'Continue that run with --resume latest, or give another --checkpoint-dir',
    },
    { place, latest },
  );
}

/** Notes in a run directory where the checkpoints of the run are, for `--resume latest`. */
export async function noteCheckpointPlace(
  runDirectory: string,
  place: string | undefined,
): Promise<void> {
  if (place !== undefined) await writeFile(join(runDirectory, NOTE), place);
}

/** Returns where the checkpoints of an earlier run are, if they are not below its directory. */
export async function notedCheckpointPlace(runDirectory: string): Promise<string | undefined> {
  const text = await readFile(join(runDirectory, NOTE), 'utf8').catch(() => undefined);
  const place = text?.trim() ?? '';
  return place === '' ? undefined : readableAt(place).directory;
}
