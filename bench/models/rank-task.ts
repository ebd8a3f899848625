import type { ShmWorld } from '@shardwise/collectives/node';
import { z } from 'zod';

/** What the process of a rank is told when it starts. */
export interface RankTask {
  /** The folder of the model. */
  readonly folder: string;
  readonly rank: number;
  readonly ranks: number;
  /** The threads of products. */
  readonly threads: number;
  /** The rows of a batch of all ranks, and their tokens. */
  readonly rows: number;
  readonly length: number;
  /** The memory of ranks that train together. Null: there is one rank. */
  readonly world: ShmWorld | null;
}

const world: z.ZodType<ShmWorld> = z.strictObject({
  id: z.string(),
  size: z.int(),
  arenaBytes: z.int(),
  pid: z.int(),
  startTicks: z.int(),
  fd: z.int(),
});

export const rankTaskSchema: z.ZodType<RankTask> = z.object({
  folder: z.string(),
  rank: z.int(),
  ranks: z.int(),
  threads: z.int(),
  rows: z.int(),
  length: z.int(),
  world: world.nullable(),
});

const precision = z.enum(['f32', 'bf16']);

/** What contestants are asked for: some training steps, or a text of so many tokens for each of some rows. */
export const requestSchema = z.union([
  z.object({ steps: z.int(), precision }),
  z.object({ rows: z.int(), tokens: z.int() }),
]);
export type ModelRequest = z.infer<typeof requestSchema>;

/** What a contestant answers. */
export const answerSchema = z.object({
  ms: z.array(z.number().positive()),
  cpuMs: z.array(z.number()).default([]),
  losses: z.array(z.number()).default([]),
  tokens: z.array(z.array(z.int())).default([]),
});
export type ModelAnswer = z.infer<typeof answerSchema>;
