import type { FunctionBuilder } from './assembler/function-builder.ts';
import { type Kernel, encodeModule, instantiate } from './assembler/kernel-module.ts';

/** Compiled kernels on one memory, by structure: parameters of one kind share one kernel. */
export class KernelLibrary {
  readonly #memory: WebAssembly.Memory;
  readonly #shared: boolean;
  readonly #kernels = new Map<string, Kernel>();

  constructor(memory: WebAssembly.Memory) {
    this.#memory = memory;
    this.#shared = memory.buffer instanceof SharedArrayBuffer;
  }

  get size(): number {
    return this.#kernels.size;
  }

  kernel(key: string, build: () => FunctionBuilder): Kernel {
    const known = this.#kernels.get(key);
    if (known) return known;
    const kernel = instantiate(encodeModule(build(), this.#shared), this.#memory);
    this.#kernels.set(key, kernel);
    return kernel;
  }
}

const libraries = new WeakMap<WebAssembly.Memory, KernelLibrary>();

/** The library of a memory; a memo that goes when the memory does. */
export function libraryOf(memory: WebAssembly.Memory): KernelLibrary {
  const known = libraries.get(memory);
  if (known) return known;
  const library = new KernelLibrary(memory);
  libraries.set(memory, library);
  return library;
}
