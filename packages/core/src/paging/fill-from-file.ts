/** The part of Node's FileHandle that is used here. Programs in a browser do not have Node's types. */
interface ReadableFile {
  read(
    target: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesRead: number }>;
}

/** The most bytes of one read. Node ends the process if a read asks for 2 GiB or more. */
const MAX_READ_BYTES = 2 ** 30;

/**
 * Fills `target` with the bytes of a file from `byteOffset` on. Returns the number of bytes, which is smaller
 * if the file ends earlier.
 */
export async function fillFromFile(
  file: ReadableFile,
  target: Uint8Array,
  byteOffset: number,
): Promise<number> {
  let filled = 0;
  while (filled < target.byteLength) {
    const length = Math.min(target.byteLength - filled, MAX_READ_BYTES);
    const { bytesRead } = await file.read(target, filled, length, byteOffset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}
