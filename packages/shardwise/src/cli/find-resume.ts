import { resolve } from 'node:path';
import { CheckpointError } from '@shardwise/core/extend';
import { diskFiles } from '../checkpoint/disk-files.ts';
import { findCheckpoint, lookForCheckpoint } from '../checkpoint/find-checkpoint.ts';
import { earlierRuns } from '../run-state/run-directory.ts';

/** The word that stands for the newest checkpoint of the script. */
const LATEST = 'latest';

/**
 * The folder that `--resume` names: one with a checkpoint, or, for `latest`, the newest checkpoint
 * of the script's newest run that has one. Throws CheckpointError where there is none.
 */
export async function findResume(asked: string, script: string): Promise<string> {
  if (asked !== LATEST) {
    await findCheckpoint(diskFiles, asked);
    return resolve(asked);
  }
  const runs = await earlierRuns(script);
  for (const run of runs) {
    const found = await lookForCheckpoint(diskFiles, run);
    if (found !== undefined) return resolve(found.folder);
  }
  throw new CheckpointError(
    {
      asked: `Continuing the latest run of ${script}`,
      found:
        runs.length === 0
          ? `no run of it in ${resolve('runs')}`
          : `no checkpoint in ${runs.length} ${runs.length === 1 ? 'run' : 'runs'}, ${runs[0]} being the newest`,
      todo: 'Name a checkpoint with --resume DIRECTORY, or start without --resume',
    },
    { script, runs },
  );
}
