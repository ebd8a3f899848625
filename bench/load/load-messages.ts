import type { dist } from 'shardwise';
import { z } from 'zod';

/** The data with which a rank of the benchmark is started. */
export interface LoadRankData {
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
  /** The folder of the model. */
  readonly folder: string;
  /** The folder of a small model, which is loaded before anything counts. */
  readonly smallFolder: string;
}

/** What one rank measured. */
export const loadOfRank = z.object({
  /** The time to read this rank's share of the bytes of the file into fresh memory. */
  readMs: z.number().positive(),
  /** The time to build the model in parts and apply FSDP to it. */
  buildMs: z.number().positive(),
  /** The time to load the weights into it. */
  loadMs: z.number().positive(),
  /** The bytes that this rank keeps of the parameters. */
  partBytes: z.number().positive(),
});
export type LoadOfRank = z.infer<typeof loadOfRank>;

/** The output of the process of all ranks. */
export const loadOfRun = z.object({
  ranks: z.array(loadOfRank),
  fileBytes: z.number().positive(),
  /** The greatest growth of the process's resident memory while the model is built and loaded. */
  residentGrowthBytes: z.number(),
});
export type LoadOfRun = z.infer<typeof loadOfRun>;
