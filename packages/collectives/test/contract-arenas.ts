import { memoryLimits } from '@shardwise/wasm-assembler';

/** A rank's buffers lie in the last bytes of its arena. */
export const usedBytes: number = 64 << 20;

/** Arenas whose last bytes all lie beyond 4 GiB. */
export const wideArenaBytes: number = 2 ** 32 + usedBytes;

/** Whether as many ranks can have such arenas on this machine. */
export function hasWideArenas(ranks: number): boolean {
  return (ranks + 1) * wideArenaBytes < memoryLimits().largestBytes + usedBytes;
}

/** Where a rank's buffers begin. */
export function firstUsedByte(region: {
  readonly byteOffset: number;
  readonly byteLength: number;
}): number {
  return region.byteOffset + region.byteLength - usedBytes;
}
