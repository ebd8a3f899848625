import { ConfigError, OutOfMemoryError } from '@shardwise/core/spec';
import { createSharedMemory, memoryLimits, pageBytes } from '@shardwise/wasm-assembler';

const leastBytes = 2 ** 28;

/**
 * A shared memory of as many bytes, rounded up to pages, or by default as many as suit the machine and the host
 * grants. Only address space is taken: the operating system supplies pages when they are first written. Throws
 * ConfigError for more than there can be, OutOfMemoryError where the host refuses.
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

/** Halves of it, down to a size with which nothing can be done. */
function smallerAndSmaller(byteLength: number): readonly number[] {
  const sizes: number[] = [];
  for (let size = byteLength; size >= leastBytes; size /= 2) {
    sizes.push(Math.floor(size / pageBytes) * pageBytes);
  }
  return sizes;
}
