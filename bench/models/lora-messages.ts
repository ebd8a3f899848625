import type { dist } from 'shardwise';
import { z } from 'zod';

/** The data with which a rank of LoRA is started. */
export interface LoraRankData {
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
  /** The folder of the model. */
  readonly folder: string;
  /** The threads of products. */
  readonly threads: number;
}

/** What one rank measured. */
export const loraOfRank = z.object({
  /** The time of each step. */
  ms: z.array(z.number().positive()),
  losses: z.array(z.number()),
  /** What the states take by the formula, and beside them the activations and the largest unit, which is whole. */
  statesBytes: z.number(),
  activationBytes: z.number(),
  unitBytes: z.number(),
  /** What the rank has of all parameters, and of those that train. */
  parameterBytes: z.number(),
  trainedBytes: z.number(),
  gradientBytes: z.number(),
  optimizerBytes: z.number(),
  peakBytes: z.number(),
});
export type LoraOfRank = z.infer<typeof loraOfRank>;

/** The output of the process of all ranks. */
export const loraOfRun = z.object({
  ranks: z.array(loraOfRank),
  /** The growth of the resident memory at its highest: until the first steps are done, and in later steps. */
  residentGrowthBytes: z.number(),
  residentOfStepsBytes: z.number(),
});
export type LoraOfRun = z.infer<typeof loraOfRun>;
