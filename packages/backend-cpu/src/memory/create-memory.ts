import { ConfigError, OutOfMemoryError } from '@shardwise/core/spec';
import { createSharedMemory, memoryLimits, pageBytes } from '@shardwise/wasm-assembler';

const MIN_BYTES = 2 ** 28;

/**
 * Makes a shared memory of `askedBytes` bytes, rounded up to pages. The default is as much as suits the machine and the
 * host grants. This only takes address space: the operating system supplies pages when they are first written. Throws
 * ConfigError for more than a memory can have, and OutOfMemoryError if the host refuses.
 */
export function createMemory(askedBytes?: number): WebAssembly.Memory {
  const { largestBytes, defaultBytes, reason } = memoryLimits();
  const byteLength = Math.ceil((askedBytes ?? defaultBytes) / pageBytes) * pageBytes;
  if (byteLength > largestBytes) {
    throw new ConfigError(
      {
        asked: `a memory of ${byteLength} bytes`,
        found: reason,
        todo: `Pass a byteLength of at most ${largestBytes}, or more ranks that share the model out`,
      },
      { byteLength, largestBytes },
    );
  }
  const sizes = askedBytes === undefined ? smallerAndSmaller(byteLength) : [byteLength];
  let failure: unknown;
  for (const size of sizes) {
    try {
      return createSharedMemory(size);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      failure = error;
    }
  }
  throw new OutOfMemoryError(
    {
      asked: `a shared memory of ${sizes.at(-1)} bytes`,
      found: 'the host granted none',
      todo: 'Raise the limit of address space, or ask for less with byteLength',
    },
    { sizes },
    { cause: failure },
  );
}

/** The size, a half of it, a quarter of it, and so on, down to a size that is still useful. */
function smallerAndSmaller(byteLength: number): readonly number[] {
  const sizes: number[] = [];
  for (let size = byteLength; size >= MIN_BYTES; size /= 2) {
    sizes.push(Math.floor(size / pageBytes) * pageBytes);
  }
  return sizes;
}
