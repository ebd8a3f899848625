import { OutOfMemoryError } from '@shardwise/core/spec';

const pageBytes = 65_536;
const gibibyte = 1024 ** 3;

/** What a 32-bit WebAssembly memory can have, less one page so that its length fits 32 bits. */
const largestBytes = 4 * gibibyte - pageBytes;

/**
 * A shared memory as large as the host grants. Only address space is taken: the operating system
 * supplies pages when they are first written.
 */
export function createMemory(): WebAssembly.Memory {
  const sizes = [largestBytes, 2 * gibibyte, gibibyte, gibibyte / 2, gibibyte / 4];
  let failure: unknown;
  for (const byteLength of sizes) {
    const pages = byteLength / pageBytes;
    try {
      return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      failure = error;
    }
  }
  throw new OutOfMemoryError(
    {
      asked: `a shared memory of ${sizes.at(-1)} bytes or more`,
      found: 'the host granted none',
      todo: 'Raise the limit of address space, or pass a memory',
    },
    { sizes },
    { cause: failure },
  );
}
