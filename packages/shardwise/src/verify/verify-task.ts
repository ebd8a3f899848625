import { z } from 'zod';

/** The variable by which a process knows what to record. */
export const verifyVariable = 'SHARDWISE_VERIFY';

/** What a process of `shardwise verify` does. */
export interface VerifyTask {
  /** The file for what was recorded. */
  readonly output: string;
  /** The number of optimizer updates after which the script ends. */
  readonly steps: number;
  /** The file that makes this the run of one rank. */
  readonly one?: string | undefined;
}

export const taskSchema: z.ZodType<VerifyTask> = z.object({
  output: z.string(),
  steps: z.number(),
  one: z.string().optional(),
});
