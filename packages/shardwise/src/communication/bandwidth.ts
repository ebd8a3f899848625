import type { CountedOperation, ObservedCall } from '@shardwise/collectives';

/**
 * The bytes of a message, as nccl-tests count them: those of the whole where each rank has a part of it.
 */
export function messageBytes({ operation, byteLength, group }: ObservedCall): number {
  const isPart = operation === 'allGather' || operation === 'reduceScatter';
  return isPart ? byteLength * group.worldRanks.length : byteLength;
}

/**
 * The bytes that the busiest link of a rank carries at least, for each byte of the message (nccl-tests, doc/
 * PERFORMANCE.md). This makes bandwidths of different operations and numbers of ranks comparable with that of a link.
 */
function busFactor(operation: CountedOperation, ranks: number): number {
  switch (operation) {
    case 'allReduce':
      return (2 * (ranks - 1)) / ranks;
    case 'allGather':
    case 'reduceScatter':
    case 'allToAll':
      return (ranks - 1) / ranks;
    default:
      return 1;
  }
}

export interface Bandwidth {
  /** The bytes of the messages over the time in which they moved, in gigabits per second. */
  readonly algorithmGbps: number;
  /** The same for the bytes that a link carries at least. */
  readonly busGbps: number;
}

/** The bandwidth of messages of so many bytes in total, which moved for so many milliseconds in total. */
export function bandwidthOf(
  operation: CountedOperation,
  ranks: number,
  bytes: number,
  milliseconds: number,
): Bandwidth {
  const algorithmGbps = milliseconds > 0 ? (8 * bytes) / (1e6 * milliseconds) : 0;
  return { algorithmGbps, busGbps: algorithmGbps * busFactor(operation, ranks) };
}
