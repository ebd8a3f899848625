import { z } from 'zod';

// Rules that schemas of configs share.

/** A size, which is at least 1. */
export const size: z.ZodNumber = z
  .int()
  .min(1)
  .max(2 ** 31);
/** The width of a head with rotary positions, which turn pairs of dims. */
export const evenSize: z.ZodNumber = size.multipleOf(2);
/** The number of a token. */
export const tokenId: z.ZodNullable<z.ZodNumber> = z.int().min(0).nullable();
/** A probability of dropout. */
export const probability: z.ZodNumber = z.number().min(0).max(1);
/** A small number that is added, or a standard deviation. */
export const nonNegative: z.ZodNumber = z.number().min(0);
export const positive: z.ZodNumber = z.number().positive();
/** Keys of config.json that are kept for the file alone. */
export const rest: z.ZodRecord<z.ZodString, z.ZodUnknown> = z.record(z.string(), z.unknown());

/** The kinds of attention of layers. */
export type LayerType = 'full_attention' | 'sliding_attention';

/** The kind of attention of each layer. Null: it follows from other keys. */
export const layerTypes: z.ZodType<readonly LayerType[] | null> = z
  .array(z.enum(['full_attention', 'sliding_attention']))
  .nullable();
