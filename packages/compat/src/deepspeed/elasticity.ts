import { ConfigError } from 'shardwise';
import { z } from 'zod';

/** The section `elasticity`. */
export const elasticitySchema: z.ZodType<Elasticity> = z.object({
  enabled: z.boolean().default(false),
  max_train_batch_size: z.int().positive().default(2000),
  micro_batch_sizes: z.array(z.int().positive()).min(1).default([2, 4, 6]),
  min_gpus: z.int().positive().default(1),
  max_gpus: z.int().positive().default(10_000),
  prefer_larger_batch: z.boolean().default(true),
  ignore_non_elastic_batch_info: z.boolean().default(false),
});

/** Which numbers of GPUs a job may have, and what its batches may be. */
export interface Elasticity {
  readonly enabled: boolean;
  readonly max_train_batch_size: number;
  readonly micro_batch_sizes: readonly number[];
  readonly min_gpus: number;
  readonly max_gpus: number;
  readonly prefer_larger_batch: boolean;
  readonly ignore_non_elastic_batch_info: boolean;
}

/** A batch of the same size on any of some numbers of ranks. */
export interface ElasticBatch {
  readonly trainBatchSize: number;
  /** The numbers of ranks that divide it, in ascending order. */
  readonly worldSizes: readonly number[];
}

/** Numbers with more divisors than any smaller one, so that a multiple of them suits many numbers of ranks. */
const HIGHLY_COMPOSITE = [
  1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
  10_080, 15_120, 20_160, 25_200, 27_720, 45_360, 50_400, 55_440, 83_160, 110_880, 166_320, 221_760,
  277_200, 332_640, 498_960, 554_400, 665_280, 720_720,
];

/**
 * The batch that suits the most numbers of ranks (DeepSpeed's get_compatible_gpus, version 0.1): a highly composite multiple of a
 * micro-batch, or of the least common multiple of all of them.
 */
export function elasticBatch(elasticity: Elasticity): ElasticBatch {
  const { max_train_batch_size: most, micro_batch_sizes: micros } = elasticity;
  const tooLarge = micros.filter((each) => each > most);
  if (tooLarge.length > 0) {
    throw new ConfigError(
      {
        asked: `elasticity.micro_batch_sizes ${micros.join(', ')}`,
        found: `${tooLarge.join(', ')} is above elasticity.max_train_batch_size ${most}`,
        todo: 'Remove it, or allow larger batches',
      },
      { path: 'elasticity.micro_batch_sizes' },
    );
  }
  const bases = [...micros, micros.reduce(leastCommonMultiple)];
  const candidates = new Set(
    bases
      .filter((base) => base <= most)
      .map((base) => base * (HIGHLY_COMPOSITE.findLast((each) => each <= most / base) ?? 1)),
  );
  let best: ElasticBatch = { trainBatchSize: 0, worldSizes: [] };
  for (const trainBatchSize of candidates) {
    const worldSizes = worldSizesOf(trainBatchSize, elasticity);
    const more = worldSizes.length - best.worldSizes.length;
    const isLarger = trainBatchSize > best.trainBatchSize === elasticity.prefer_larger_batch;
    if (more > 0 || (more === 0 && isLarger)) best = { trainBatchSize, worldSizes };
  }
  return best;
}

/**
 * The elastic batch and its micro-batch on this number of ranks: the largest that divides the rows of a rank. Throws
 * ConfigError for a number of ranks that it does not suit.
 */
export function elasticBatchOn(
  elasticity: Elasticity,
  ranks: number,
): { readonly train: number; readonly micro: number } {
  const { trainBatchSize, worldSizes } = elasticBatch(elasticity);
  if (!worldSizes.includes(ranks)) {
    throw new ConfigError(
      {
        asked: `an elastic job on ${ranks} ranks`,
        found: `a batch of ${trainBatchSize} rows, which suits ${worldSizes.join(', ') || 'no number of ranks'}`,
        todo: 'Start one of these numbers of ranks, or change elasticity.micro_batch_sizes',
      },
      { ranks, worldSizes, path: 'elasticity' },
    );
  }
  const rows = trainBatchSize / ranks;
  const fitting = elasticity.micro_batch_sizes.filter((micro) => rows % micro === 0);
  return { train: trainBatchSize, micro: Math.max(...fitting) };
}

function worldSizesOf(
  batch: number,
  { micro_batch_sizes: micros, min_gpus: least, max_gpus: most }: Elasticity,
): readonly number[] {
  const found = new Set<number>();
  for (const micro of micros) {
    if (batch % micro !== 0) continue;
    const passes = batch / micro;
    for (let ranks = least; ranks <= Math.min(most, passes); ranks++) {
      if (passes % ranks === 0) found.add(ranks);
    }
  }
  return [...found].sort((a, b) => a - b);
}

function leastCommonMultiple(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y > 0) [x, y] = [y, x % y];
  return (a / x) * b;
}
