import type { RandomAccessFile } from '../serialization/model-folder.ts';

/** Reads of fewer bytes take a whole block, of which the next read may need another part. */
const BLOCK_BYTES = 131_072;
/** The number of blocks that are kept. */
const BLOCKS = 8;

/**
 * A file that keeps the blocks that it read last, for a place where each read takes as long as some hundred kilobytes.
 * Small reads that lie beside each other, as rows of text and small tensors do, become one.
 */
export function readBlocks(file: RandomAccessFile): RandomAccessFile {
  const blocks = new Map<number, Promise<Uint8Array<ArrayBuffer>>>();
  const blockAt = (index: number): Promise<Uint8Array<ArrayBuffer>> => {
    const kept = blocks.get(index);
    blocks.delete(index);
    const block = kept ?? readBlock(file, index);
    blocks.set(index, block);
    // A block that could not be read is asked for again.
    if (kept === undefined) block.catch(() => blocks.delete(index));
    const [oldest] = blocks.keys();
    if (blocks.size > BLOCKS && oldest !== undefined) blocks.delete(oldest);
    return block;
  };
  return {
    ...file,
    async read(target, byteOffset) {
      if (target.byteLength >= BLOCK_BYTES) return file.read(target, byteOffset);
      const end = Math.min(file.byteLength, byteOffset + target.byteLength);
      let filled = 0;
      while (byteOffset + filled < end) {
        const at = byteOffset + filled;
        const index = Math.floor(at / BLOCK_BYTES);
        const from = at - index * BLOCK_BYTES;
        const part = (await blockAt(index)).subarray(from, from + end - at);
        if (part.byteLength === 0) break;
        target.set(part, filled);
        filled += part.byteLength;
      }
      return filled;
    },
  };
}

async function readBlock(file: RandomAccessFile, index: number): Promise<Uint8Array<ArrayBuffer>> {
  const start = index * BLOCK_BYTES;
  const bytes = new Uint8Array(Math.min(BLOCK_BYTES, file.byteLength - start));
  return bytes.subarray(0, await file.read(bytes, start));
}
