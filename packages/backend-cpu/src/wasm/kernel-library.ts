import { encodeModule, type FunctionBuilder } from '@shardwise/wasm-assembler';

/** Runs on the memory of its library; takes addresses in bytes and counts. Some return a number. */
export type Kernel = (...parameters: number[]) => number | undefined;

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
    const kernel = this.#instantiate(build());
    this.#kernels.set(key, kernel);
    return kernel;
  }

  /** Compiles at once, on this thread, as kernels are small. */
  #instantiate(kernel: FunctionBuilder): Kernel {
    const module = new WebAssembly.Module(encodeModule(new Map([['run', kernel]]), this.#shared));
    const { run } = new WebAssembly.Instance(module, { env: { memory: this.#memory } }).exports;
    if (typeof run !== 'function') throw new TypeError('A kernel module exports no function run.');
    return (...parameters) => {
      const result: unknown = Reflect.apply(run, undefined, parameters);
      return typeof result === 'number' ? result : undefined;
    };
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
