import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { checkpointNames } from './checkpoint-folders.ts';
import { latestOf } from './find-checkpoint.ts';

/**
 * The checkpoints of `directory`, whether they are whole or not: itself, or those of a folder of checkpoints
 * or of a run directory, the latest first.
 */
export async function listCheckpoints(directory: string): Promise<readonly string[]> {
  const own = await stat(join(directory, 'state.json')).catch(() => undefined);
  if (own !== undefined) return [directory];
  for (const folder of [directory, join(directory, 'checkpoints')]) {
    const names = await checkpointNames(folder).catch(() => []);
    // Where "latest" is broken, the newest is.
    const latest = await latestOf(folder).catch(() => undefined);
    const folders = names.map((name) => join(folder, name));
    const known = latest !== undefined && folders.includes(latest) ? [latest] : [];
    if (folders.length > 0) return [...new Set([...known, ...folders])];
  }
  return [];
}
