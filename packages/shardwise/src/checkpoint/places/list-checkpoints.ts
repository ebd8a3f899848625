import type { CheckpointFiles } from './checkpoint-files.ts';
import { checkpointNames } from './checkpoint-folders.ts';
import { latestOf } from './find-checkpoint.ts';
import { stateName } from '../format/index-file.ts';

/**
 * Lists the checkpoints of `directory`, whether they are whole or not: the directory itself, or those of a folder of
 * checkpoints or of a run directory. The latest comes first.
 */
export async function listCheckpoints(
  files: CheckpointFiles,
  directory: string,
): Promise<readonly string[]> {
  const own = await files.find(files.join(directory, stateName));
  if (own !== undefined) return [directory];
  for (const folder of [directory, files.join(directory, 'checkpoints')]) {
    const names = await checkpointNames(files, folder).catch(() => []);
    // If "latest" is broken, the newest folder counts as the latest.
    const latest = await latestOf(files, folder).catch(() => undefined);
    const folders = names.map((name) => files.join(folder, name));
    const known = latest !== undefined && folders.includes(latest) ? [latest] : [];
    if (folders.length > 0) return [...new Set([...known, ...folders])];
  }
  return [];
}
