import { resolve } from 'node:path';
import { CheckpointError } from '@shardwise/core/extend';
import { isAddress } from '@shardwise/core/node';
import { readableAt } from '../checkpoint/places/checkpoint-place.ts';
import { findCheckpoint, lookForCheckpoint } from '../checkpoint/places/find-checkpoint.ts';
import { leftByServers } from '../launcher/servers/left-by-servers.ts';
import { notedCheckpointPlace } from './checkpoint-directory.ts';
import { earlierRuns } from '../run-state/run-directory.ts';

/** The value of `--resume` that stands for the newest checkpoint of the script. */
const LATEST = 'latest';

/** What a run continues from. */
export interface ResumePoint {
  /** The folder of the checkpoint that `--resume` names. Undefined if there is no checkpoint. */
  readonly checkpoint: string | undefined;
  /** The directory of what parameter servers have left. Undefined if there is none, or the run has no servers. */
  readonly servers: string | undefined;
}

interface ResumeOptions {
  /** Whether the run has parameter servers. */
  readonly hasServers: boolean;
  /** Where the run saves checkpoints, if that is not below its own directory. */
  readonly checkpointDirectory: string | undefined;
}

/**
 * Finds what `--resume` names. A folder must contain a checkpoint or, for a run with servers, what parameter servers
 * have left. `latest` is the newest checkpoint of the place for checkpoints that is given, or of
 * the script's newest run that has one. Throws CheckpointError if there
 * is none.
 */
export async function findResume(
  asked: string,
  script: string,
  { hasServers, checkpointDirectory }: ResumeOptions,
): Promise<ResumePoint> {
  if (asked !== LATEST) {
    const { files, directory } = readableAt(asked);
    const checkpoint = isAddress(asked) ? directory : resolve(asked);
    const servers = hasServers ? await leftByServers(asked) : undefined;
    const found = servers === undefined ? undefined : await lookForCheckpoint(files, directory);
    if (servers !== undefined && found === undefined) return { checkpoint: undefined, servers };
    await findCheckpoint(files, directory);
    return { checkpoint, servers };
  }
  if (checkpointDirectory !== undefined) {
    const { files, directory } = readableAt(checkpointDirectory);
    return { checkpoint: (await findCheckpoint(files, directory)).folder, servers: undefined };
  }
  const runs = await earlierRuns(script);
  for (const run of runs) {
    const servers = hasServers ? await leftByServers(run) : undefined;
    const { files, directory } = readableAt((await notedCheckpointPlace(run)) ?? resolve(run));
    const found = await lookForCheckpoint(files, directory);
    if (found !== undefined) return { checkpoint: found.folder, servers };
    if (servers !== undefined) return { checkpoint: undefined, servers };
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
