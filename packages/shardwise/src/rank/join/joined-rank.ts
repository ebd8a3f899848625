import type { MemoryRegion, SharedMemoryGroup, ThreadsWorld } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';

/** A rank that has joined its world. */
export interface JoinedRank {
  /** All ranks. */
  readonly group: ProcessGroup;
  /** Memory for this rank's tensors that other ranks reach without a copy; undefined: there is none. */
  readonly arena: (MemoryRegion & { readonly memory: ThreadsWorld['memory'] }) | undefined;
}

/** Of ranks that share memory. */
export interface SharedMemoryRank extends JoinedRank {
  readonly group: SharedMemoryGroup;
}
