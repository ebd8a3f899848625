import { ShardwiseError } from '@shardwise/core';

/** Returns the error of some work, or null if there was none. */
export async function failureOf(work: Promise<unknown>): Promise<ShardwiseError | null> {
  try {
    await work;
    return null;
  } catch (error) {
    if (!ShardwiseError.isInstance(error)) throw error;
    return error;
  }
}
