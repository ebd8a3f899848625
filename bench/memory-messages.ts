import type { dist } from 'shardwise';
import { z } from 'zod';
import type { MemoryModelName } from './memory-models.ts';
import type { MemoryStrategyName } from './memory-strategies.ts';

/** The data with which a rank of the memory benchmark is started. */
export interface MemoryRankData {
  readonly rank: number;
  readonly world: dist.transports.ThreadsWorld;
  readonly model: MemoryModelName;
  readonly strategy: MemoryStrategyName;
}

const bytes = z.number().nonnegative();

/** What one rank measured, and the theoretical figures. */
export const memoryOfRank = z.object({
  formula: z.string(),
  /** The bytes of the states by the formula. */
  theoryStatesBytes: bytes,
  /** The bytes of the largest unit, which is whole while it runs. */
  unitBytes: bytes,
  activationBytes: bytes,
  /** The bytes of all whole gradients of one rank. */
  allGradientsBytes: bytes,
  /** The allocator counts this and the following figures after a step. */
  parameterBytes: bytes,
  gradientBytes: bytes,
  optimizerBytes: bytes,
  /** The allocator's high-water mark. */
  peakBytes: bytes,
});
export type MemoryOfRank = z.infer<typeof memoryOfRank>;

/** The output of the process of one strategy. */
export const memoryOfRun = z.object({
  ranks: z.array(memoryOfRank),
  /** The greatest growth of the process's resident memory since its ranks were ready. */
  residentGrowthBytes: bytes,
  /**
   * The same growth in the steps after the first one, when the garbage of building the model is gone. Null if the
   * system cannot tell it.
   */
  residentOfStepsBytes: bytes.nullable(),
});
export type MemoryOfRun = z.infer<typeof memoryOfRun>;
