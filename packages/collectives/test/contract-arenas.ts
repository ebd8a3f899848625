import { memoryLimits } from '@shardwise/wasm-assembler';

/** The size of the range at the end of each arena in which a rank's buffers lie. */
export const usedBytes: number = 64 << 20;

/** The size of arenas whose used bytes all lie beyond 4 GiB. */
export const wideArenaBytes: number = 2 ** 32 + usedBytes;

/** Whether this machine has memory for such an arena for each of the ranks. */
export function hasWideArenas(ranks: number): boolean {
  return (ranks + 1) * wideArenaBytes < memoryLimits().largestBytes + usedBytes;
}

/** Returns the offset of the first byte that a rank's buffers may use. */
export function firstUsedByte(region: {
  readonly byteOffset: number;
  readonly byteLength: number;
}): number {
  return region.byteOffset + region.byteLength - usedBytes;
}
