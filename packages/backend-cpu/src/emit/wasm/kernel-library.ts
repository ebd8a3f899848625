import { type FunctionBuilder, instantiateKernels, type Kernel } from '@shardwise/wasm-assembler';

/** The compiled kernels on one memory, by structure. Kernels with the same structure are compiled once. */
export class KernelLibrary {
  readonly #memory: WebAssembly.Memory;
  readonly #kernels = new Map<string, Kernel>();

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
  }

  get size(): number {
    return this.#kernels.size;
  }

  kernel(key: string, build: () => FunctionBuilder): Kernel {
    const known = this.#kernels.get(key);
    if (known) return known;
    const kernel = instantiateKernels(new Map([[key, build()]]), this.#memory).get(key);
    if (kernel === undefined) throw new RangeError(`The module has no kernel ${key}`);
    this.#kernels.set(key, kernel);
    return kernel;
  }
}

const libraries = new WeakMap<WebAssembly.Memory, KernelLibrary>();

/** Returns the library of a memory. It is freed together with the memory. */
export function libraryOf(memory: WebAssembly.Memory): KernelLibrary {
  const known = libraries.get(memory);
  if (known) return known;
  const library = new KernelLibrary(memory);
  libraries.set(memory, library);
  return library;
}
