import { type Checkpoint, CheckpointError } from 'shardwise';
import { z } from 'zod';

/** What a checkpoint keeps besides model and optimizer; each part checks its own contents. */
export const progressSchema = z.object({
  loader: z
    .object({
      batchSize: z.number(),
      sampler: z.object({ numReplicas: z.number() }).catchall(z.json()),
    })
    .catchall(z.json()),
});

/** The same of each rank. */
export const rankProgressSchema = z.object({ random: z.json() });

export interface Progress {
  /** For `loader.load`. */
  readonly loader: unknown;
  /** For `setRandomState`. */
  readonly random: unknown;
}

/**
 * What rank `rank` of a run continues with. On another number of ranks the batches of all ranks
 * together must be as large as they were: then these see the same windows in the same steps. Throws
 * CheckpointError for other batches, and for a checkpoint of another script.
 */
export function readProgress(
  { directory, extra, rankExtras, worldSize: saved }: Checkpoint,
  run: { readonly rank: number; readonly worldSize: number; readonly batchSize: number },
): Progress {
  const parsed = progressSchema.safeParse(extra);
  const own = rankProgressSchema.safeParse(rankExtras[run.rank] ?? rankExtras[0]);
  if (!parsed.success || !own.success) {
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
  const { loader } = parsed.data;
  const { random } = own.data;
  if (saved === run.worldSize) return { loader, random };
  const windows = loader.batchSize * saved;
  if (windows !== run.batchSize * run.worldSize) {
    const ranks = (count: number): string => `${count} ${count === 1 ? 'rank' : 'ranks'}`;
    throw new CheckpointError(
      {
        asked: `to continue a run of ${ranks(saved)} with batches of ${loader.batchSize}`,
        found: `${ranks(run.worldSize)} with batches of ${run.batchSize}`,
        todo:
          windows % run.worldSize === 0
            ? `Pass --batch-size ${windows / run.worldSize}`
            : `Start it with --nproc ${saved}`,
      },
      { directory, saved, worldSize: run.worldSize, windows },
    );
  }
  const sampler = { ...loader.sampler, numReplicas: run.worldSize };
  return { loader: { ...loader, batchSize: run.batchSize, sampler }, random };
}
