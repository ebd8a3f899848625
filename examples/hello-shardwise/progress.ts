import { CheckpointError, type checkpoints } from 'shardwise';
import { z } from 'zod';

/** What a checkpoint contains besides model and optimizer. The objects that load these states check their contents. */
const progressSchema = z.object({ loader: z.json() });
/** What a checkpoint contains for each rank: what draws the masks, and what draws the dropout. */
const rankProgressSchema = z.object({ masks: z.json(), random: z.json() });

export type Progress = z.infer<typeof progressSchema> & z.infer<typeof rankProgressSchema>;

/** Returns what rank `rank` of a run continues with. Throws CheckpointError for a checkpoint of another script. */
export function readProgress(
  { directory, extra, rankExtras }: checkpoints.Checkpoint,
  rank: number,
): Progress {
  const parsed = progressSchema.safeParse(extra);
  const own = rankProgressSchema.safeParse(rankExtras[rank] ?? rankExtras[0]);
  if (parsed.success && own.success) return { ...parsed.data, ...own.data };
  throw new CheckpointError(
    {
      asked: `to continue from ${directory}`,
      found: 'a checkpoint that this script did not write',
      todo: 'Name a checkpoint of a run of this script with --resume',
    },
    { directory },
    { cause: parsed.error ?? own.error },
  );
}
