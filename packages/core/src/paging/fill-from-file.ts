import type { FileHandle } from 'node:fs/promises';

/** Node ends the process at a call of 2 GiB or more. */
const maxReadBytes = 2 ** 30;

/** Fills `target` with a file's bytes from `byteOffset` on; returns how many there were, where it ends earlier. */
export async function fillFromFile(
  file: Pick<FileHandle, 'read'>,
  target: Uint8Array,
  byteOffset: number,
): Promise<number> {
  let filled = 0;
  while (filled < target.byteLength) {
    const length = Math.min(target.byteLength - filled, maxReadBytes);
    const { bytesRead } = await file.read(target, filled, length, byteOffset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}
