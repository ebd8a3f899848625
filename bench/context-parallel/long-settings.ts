import { z } from 'zod';

/** The training of one long sequence, whose ranks have parts of it. */
export const longSettings = z.object({
  length: z.number(),
  layers: z.number(),
  width: z.number(),
  heads: z.number(),
  vocabulary: z.number(),
  tile: z.number(),
});
export type LongSettings = z.infer<typeof longSettings>;
