import { narrowMemoryBytes, pageBytes } from './memory-limits.ts';

/**
 * A shared memory that never grows, so views of it stay valid. Its addresses have 32 bits if these suffice,
 * because kernels are faster with them. Throws RangeError if the system does not grant the memory.
 */
export function createSharedMemory(byteLength: number): WebAssembly.Memory {
  const pages = byteLength / pageBytes;
  if (byteLength <= narrowMemoryBytes) {
    return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
  }
  const limits = { address: 'i64', initial: BigInt(pages), maximum: BigInt(pages), shared: true };
  try {
    // TypeScript has no type for the descriptor of such a memory.
    const memory: unknown = Reflect.construct(WebAssembly.Memory, [limits]);
    if (memory instanceof WebAssembly.Memory) return memory;
  } catch (error) {
    // Engines without 64-bit addresses throw TypeError, because they expect numbers.
    if (!(error instanceof TypeError)) throw error;
  }
  throw new RangeError(`This engine has no memory of ${byteLength} bytes.`);
}
