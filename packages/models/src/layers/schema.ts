import { z } from 'zod';

// Rules that schemas of configs share.

/** A size, which is at least 1. */
export const size: z.ZodNumber = z
  .int()
  .min(1)
  .max(2 ** 31);
/** The number of a token. */
export const tokenId: z.ZodType<number | null> = z.int().min(0).nullable();
/** A probability of dropout. */
export const probability: z.ZodNumber = z.number().min(0).max(1);
/** A small number that is added, or a standard deviation. */
export const nonNegative: z.ZodNumber = z.number().min(0);
/** Keys of config.json that are kept for the file alone. */
export const rest: z.ZodType<Readonly<Record<string, unknown>>> = z.record(z.string(), z.unknown());
