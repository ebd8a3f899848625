import { open } from 'node:fs/promises';
import { writeSync } from 'node:fs';

/** Node refuses to write 2 GiB or more in one call. */
const MAX_WRITE_BYTES = 2 ** 30;
/** Below so many bytes, handing a write to another thread takes longer than the write. */
const SMALL_WRITE_BYTES = 65_536;

/** A FileHandle of Node. Declarations do not name Node's types, which a user may not have installed. */
interface WritableFile {
  readonly fd: number;
  write(
    bytes: Uint8Array,
    offset: number,
    length: number,
    position: number,
  ): Promise<{ readonly bytesWritten: number }>;
}

/** Writes all of `bytes` to a file from `byteOffset` on. */
export async function writeAt(
  file: WritableFile,
  bytes: Uint8Array,
  byteOffset: number,
): Promise<void> {
  let written = 0;
  while (written < bytes.byteLength) {
    const length = Math.min(bytes.byteLength - written, MAX_WRITE_BYTES);
    const at = byteOffset + written;
    written +=
      length <= SMALL_WRITE_BYTES
        ? writeSync(file.fd, bytes, written, length, at)
        : (await file.write(bytes, written, length, at)).bytesWritten;
  }
}

/** Makes the entries of a directory durable. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot open directories, and does not need this call.
  if (process.platform === 'win32') return;
  await using directory = await open(path, 'r');
  await directory.sync();
}
