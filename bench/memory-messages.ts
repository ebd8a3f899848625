import type { ThreadsWorld } from 'shardwise';
import { z } from 'zod';
import type { MemoryModelName } from './memory-models.ts';
import type { MemoryStrategyName } from './memory-strategies.ts';

/** What a rank of the memory benchmark is started with. */
export interface MemoryRankData {
  readonly rank: number;
  readonly world: ThreadsWorld;
  readonly model: MemoryModelName;
  readonly strategy: MemoryStrategyName;
}

const bytes = z.number().nonnegative();

/** What one rank found; theory beside it. */
export const memoryOfRank = z.object({
  formula: z.string(),
  /** By the formula. */
  theoryStatesBytes: bytes,
  /** Of one unit that is whole while it runs: the largest. */
  unitBytes: bytes,
  activationBytes: bytes,
  /** All gradients of one rank, whole. */
  allGradientsBytes: bytes,
  /** From here on counted by the allocator, after a step. */
  parameterBytes: bytes,
  gradientBytes: bytes,
  optimizerBytes: bytes,
  /** Its high-water mark. */
  peakBytes: bytes,
});
export type MemoryOfRank = z.infer<typeof memoryOfRank>;

/** What the process of one strategy prints. */
export const memoryOfRun = z.object({
  ranks: z.array(memoryOfRank),
  /** Growth of the process's resident memory, at its highest, since its ranks were ready. */
  residentGrowthBytes: bytes,
  /** The same in the steps after the first, when the garbage of building the model is gone; null where the system cannot tell. */
  residentOfStepsBytes: bytes.nullable(),
});
export type MemoryOfRun = z.infer<typeof memoryOfRun>;
