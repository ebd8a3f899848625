import type { ProcessGroup } from '@shardwise/core/spec';
import {
  BLOCK_BYTES,
  blockOf,
  openBlock,
  outgoingObject,
  type ObjectCall,
} from './object-message.ts';

/** What every rank knows of all objects when the first bytes of each have been exchanged. */
export interface GatheredBlocks {
  /** This rank's object, encoded. */
  readonly own: Uint8Array;
  /** For each rank, memory as long as its object. Bytes that do not fit a block have not come yet. */
  readonly objects: readonly Uint8Array[];
}

/**
 * Gives the first bytes of every rank's object to every rank. Throws on all ranks alike if an object cannot be sent.
 */
export async function allGatherBlocks(
  group: ProcessGroup,
  value: unknown,
  object: ObjectCall,
): Promise<GatheredBlocks> {
  const own = outgoingObject(value);
  const blocks = new Uint8Array(group.size * BLOCK_BYTES);
  await group.allGather(
    { bytes: blockOf(own), dtype: 'u8' },
    { bytes: blocks, dtype: 'u8' },
    object.call,
  );
  if (own.error !== undefined) throw own.error;
  const objects = Array.from({ length: group.size }, (_, rank) => {
    const block = blocks.subarray(rank * BLOCK_BYTES, (rank + 1) * BLOCK_BYTES);
    return openBlock(block, rank, object).bytes;
  });
  return { own: own.bytes, objects };
}
