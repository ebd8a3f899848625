import { ShardwiseError } from '@shardwise/core';
import { z } from 'zod';

/** An error as a rank reports it. Null if there was none. */
export const failure = z.object({ code: z.string(), message: z.string() }).nullable();

export async function failureOf(work: Promise<unknown>): Promise<z.infer<typeof failure>> {
  try {
    await work;
    return null;
  } catch (error) {
    if (!ShardwiseError.isInstance(error)) throw error;
    return { code: error.code, message: error.message };
  }
}
