import type { Node } from '@shardwise/core/extend';
import { ShardedPart } from './sharded-part.ts';

/** A part of which the rank keeps its part of the contents and of the gradient (ZeRO-3, FSDP). */
export class ScatteredPart extends ShardedPart {
  override collect(): Node {
    return this.gatherParts(this).node;
  }
}
