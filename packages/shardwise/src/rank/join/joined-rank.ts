import type { MemoryRegion, SharedMemoryGroup, ThreadsWorld } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/extend';
import type { Traffic } from './count-traffic.ts';

/** A rank that has joined its world. */
export interface JoinedRank {
  /** The group of all ranks. */
  readonly group: ProcessGroup;
  /** Counts the messages to other processes. Absent if there are none, or if they are not counted. */
  readonly traffic?: Traffic;
  /** Memory for this rank's tensors that other ranks reach without a copy. Undefined if there is no such memory. */
  readonly arena: (MemoryRegion & { readonly memory: ThreadsWorld['memory'] }) | undefined;
}

/** A rank that shares memory with the others. */
export interface SharedMemoryRank extends JoinedRank {
  readonly group: SharedMemoryGroup;
}
