import type { ReachedRates } from '@shardwise/planner';
import { z } from 'zod';

const positive = z.number().positive();

const reachedRatesSchema: z.ZodType<ReachedRates> = z.object({
  flops: positive,
  memoryBytesPerSecond: positive,
  updateBytesPerSecond: positive,
  launchSeconds: z.number().nonnegative(),
  link: z.object({ latencySeconds: z.number().nonnegative(), bytesPerSecond: positive }).optional(),
  errors: z.array(z.number()).readonly(),
});

/** Parses what rank 0 has written of what the ranks of `shardwise measure` have measured together. */
export function parseMeasuredRanks(json: string): ReachedRates {
  return reachedRatesSchema.parse(JSON.parse(json));
}

/** The file of the run's directory into which rank 0 writes what was measured. */
export const MEASURED_FILE = 'measured.json';
