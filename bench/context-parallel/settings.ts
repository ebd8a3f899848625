import { z } from 'zod';

/** The training of one contestant: its model, and how the ranks share it. */
export const contextSettings = z.object({
  /** `ddp`: each rank has a sequence of its own. The others: all ranks have parts of one sequence. */
  contestant: z.enum(['ddp', 'ring', 'allGather', 'ulysses']),
  length: z.number(),
  layers: z.number(),
  width: z.number(),
  heads: z.number(),
  vocabulary: z.number(),
});
export type ContextSettings = z.infer<typeof contextSettings>;
