import { type FunctionBuilder, instantiateKernels, type Kernel } from '@shardwise/wasm-assembler';

/** Compiled kernels on one memory, by structure: parameters of one kind share one kernel. */
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

/** The library of a memory, which goes when the memory does. */
export function libraryOf(memory: WebAssembly.Memory): KernelLibrary {
  const known = libraries.get(memory);
  if (known) return known;
  const library = new KernelLibrary(memory);
  libraries.set(memory, library);
  return library;
}
