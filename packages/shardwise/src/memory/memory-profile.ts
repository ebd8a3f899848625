import { z } from 'zod';

/** What memory is used for. */
export const memoryCategories = [
  'parameters',
  'gradients',
  'optimizer states',
  'activations',
  'temporary',
  'inputs and buffers',
  'reserved',
] as const;

/**
 * What memory is used for. `temporary` are gradients of activations, results of collectives and what the optimizer
 * computes. `reserved` is memory that nothing lies in at the moment: the rest of memory that a run or the device has
 * taken as one piece, and what was there before the timeline began and belongs neither to the model nor to the optimizer.
 */
export type MemoryCategory = (typeof memoryCategories)[number];

/** Something that lay in memory for a time. */
export interface MemoryBlock {
  readonly bytes: number;
  readonly category: MemoryCategory;
  /** The path of the module in whose call it was made, or whose parameter it is. Empty: none. */
  readonly module: string;
  /** The operation with the shape and dtype of its value, the part of the step, or the name of the parameter. */
  readonly operation: string;
  /** Milliseconds since the timeline began. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** The memory of one rank over a time. */
export interface MemoryProfile {
  readonly rank: number;
  readonly durationMs: number;
  /** From each of these times on, the bytes of each category, in the order of `memoryCategories`. */
  readonly points: readonly { readonly ms: number; readonly bytes: readonly number[] }[];
  /** All blocks, without those that are reserved. */
  readonly blocks: readonly MemoryBlock[];
  readonly peak: {
    /** The first time at which the most bytes were in use, and the fewest of them reserved. */
    readonly ms: number;
    readonly bytes: number;
    /** What lay in memory then, the largest first. The bytes add up to those of the peak. */
    readonly blocks: readonly MemoryBlock[];
  };
}

const count = z.number().nonnegative();

const blockSchema = z.object({
  bytes: count,
  category: z.enum(memoryCategories),
  module: z.string(),
  operation: z.string(),
  fromMs: count,
  toMs: count,
});

/** The check of a profile that another rank has sent. */
export const memoryProfileSchema: z.ZodType<MemoryProfile> = z.object({
  rank: z.int().nonnegative(),
  durationMs: count,
  points: z.array(z.object({ ms: count, bytes: z.array(count) })),
  blocks: z.array(blockSchema),
  peak: z.object({ ms: count, bytes: count, blocks: z.array(blockSchema) }),
});
