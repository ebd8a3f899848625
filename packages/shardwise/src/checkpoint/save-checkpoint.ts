import { singleGroup } from '@shardwise/collectives';
import type { CheckpointContents } from './checkpoint-contents.ts';
import { CheckpointSaver, type CheckpointSaverOptions } from './checkpoint-saver.ts';

/**
 * Saves a checkpoint to a folder of the script's choice, as `context.saveCheckpoint` does to the
 * run's: a collective of `group`, by default this rank alone. Returns its folder.
 */
export async function saveCheckpoint(
  directory: string,
  contents: CheckpointContents,
  options: Partial<Pick<CheckpointSaverOptions, 'group' | 'files'>> & {
    readonly keep?: number;
  } = {},
): Promise<string> {
  const { group = singleGroup(), files, keep } = options;
  const saver = new CheckpointSaver({
    directory,
    group,
    ...(files === undefined ? {} : { files }),
  });
  return saver.save(contents, keep === undefined ? {} : { keep });
}
