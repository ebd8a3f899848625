import type { ClusterLink, ReachedRates } from '@shardwise/planner';
import { z } from 'zod';

/** What the ranks of `shardwise measure` have measured together. */
export interface MeasuredRanks {
  readonly device: ReachedRates;
  /** Undefined: there is one rank. */
  readonly link?: ClusterLink | undefined;
}

const positive = z.number().positive();

const measuredRanksSchema: z.ZodType<MeasuredRanks> = z.object({
  device: z.object({
    flops: positive,
    memoryBytesPerSecond: positive,
    launchSeconds: z.number().nonnegative(),
    errors: z.array(z.number()).readonly(),
  }),
  link: z.object({ latencySeconds: z.number().nonnegative(), bytesPerSecond: positive }).optional(),
});

/** Parses what rank 0 has written. Throws an error of zod for anything else. */
export function parseMeasuredRanks(json: string): MeasuredRanks {
  return measuredRanksSchema.parse(JSON.parse(json));
}

/** The file of the run's directory into which rank 0 writes what was measured. */
export const MEASURED_FILE = 'measured.json';
