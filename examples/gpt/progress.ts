import { type Checkpoint, CheckpointError } from 'shardwise';
import { z } from 'zod';

/** What a checkpoint keeps besides model and optimizer arrays; each part checks its own contents. */
export const progressSchema = z.object({ loader: z.json(), random: z.json(), optimizer: z.json() });

/**
 * What a run on `worldSize` ranks continues with. Throws CheckpointError for a checkpoint of another
 * script, or of another number of ranks: these would see other batches than the run that is continued.
 */
export function readProgress(
  { directory, extra, worldSize: saved }: Checkpoint,
  worldSize: number,
): z.infer<typeof progressSchema> {
  const parsed = progressSchema.safeParse(extra);
  if (!parsed.success) {
    throw new CheckpointError(
      {
        asked: `to continue from ${directory}`,
        found: 'a checkpoint that this script did not write',
        todo: 'Name a checkpoint of a run of this script with --resume',
      },
      { directory },
      { cause: parsed.error },
    );
  }
  if (saved !== worldSize) {
    throw new CheckpointError(
      {
        asked: `to continue a run of ${saved} ${saved === 1 ? 'rank' : 'ranks'}`,
        found: `this one has ${worldSize}`,
        todo: `Start it with --nproc ${saved}`,
      },
      { directory, saved, worldSize },
    );
  }
  return parsed.data;
}
