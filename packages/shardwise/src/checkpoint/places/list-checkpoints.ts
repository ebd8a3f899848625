import { CheckpointError } from '@shardwise/core/extend';
import type { ReadableFiles } from './checkpoint-files.ts';
import { checkpointNames } from './checkpoint-folders.ts';
import { latestOf } from './find-checkpoint.ts';
import { stateName } from '../format/index-file.ts';

/**
 * Lists the checkpoints of `directory`, whether they are whole or not: the directory itself, or those of a folder of
 * checkpoints or of a run directory. The latest comes first. Where no list can be had, it is the only one.
 */
export async function listCheckpoints(
  files: ReadableFiles,
  directory: string,
): Promise<readonly string[]> {
  const own = await files.find(files.join(directory, stateName));
  if (own !== undefined) return [directory];
  for (const folder of [directory, files.join(directory, 'checkpoints')]) {
    const names = await checkpointNames(files, folder).catch(noneUnlessUnreachable);
    // If "latest" is broken, the newest folder counts as the latest.
    const latest = await latestOf(files, folder).catch((error: unknown) => {
      if (files.list === undefined) throw error;
      return undefined;
    });
    const folders = names.map((name) => files.join(folder, name));
    const isKnown = latest !== undefined && (files.list === undefined || folders.includes(latest));
    const all = new Set([...(isKnown ? [latest] : []), ...folders]);
    if (all.size > 0) return [...all];
  }
  return [];
}

/** A folder that is not there has no checkpoints. A place that cannot be reached may have some. */
function noneUnlessUnreachable(error: unknown): readonly string[] {
  if (error instanceof CheckpointError) throw error;
  return [];
}
