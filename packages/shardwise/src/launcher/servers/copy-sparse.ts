import { open } from 'node:fs/promises';

const PIECE_BYTES = 1 << 20;

/** Copies a file, and leaves holes in place of zeros, so that a table takes no more room than its rows. */
export async function copySparse(from: string, to: string): Promise<void> {
  await using source = await open(from);
  await using target = await open(to, 'w');
  const { size } = await source.stat();
  await target.truncate(size);
  const piece = Buffer.alloc(PIECE_BYTES);
  const zeros = Buffer.alloc(PIECE_BYTES);
  for (let position = 0; position < size;) {
    const { bytesRead } = await source.read(piece, 0, PIECE_BYTES, position);
    if (bytesRead === 0) break;
    if (!piece.subarray(0, bytesRead).equals(zeros.subarray(0, bytesRead))) {
      for (let done = 0; done < bytesRead;) {
        const { bytesWritten } = await target.write(piece, done, bytesRead - done, position + done);
        done += bytesWritten;
      }
    }
    position += bytesRead;
  }
}
