import { encodeModule, type MemoryType } from './encode-module.ts';
import type { FunctionBuilder } from './function-builder.ts';

/** A compiled function. Its parameters are addresses in bytes, counts, and the other parameters of the function. */
export type Kernel = (...parameters: readonly number[]) => number | undefined;

/** What the functions of a map are compiled to, for each type of memory. */
const compiled = new WeakMap<
  ReadonlyMap<string, FunctionBuilder>,
  Map<string, WebAssembly.Module>
>();

/**
 * Compiles the functions for a memory of either width and returns them by name. It compiles synchronously,
 * on this thread, and once for all memories of a type that are given the same map. Throws RangeError for a memory that
 * no module accepts.
 */
export function instantiateKernels(
  functions: ReadonlyMap<string, FunctionBuilder>,
  memory: WebAssembly.Memory,
): ReadonlyMap<string, Kernel> {
  const exports = instantiate(functions, memory);
  const kernels = new Map<string, Kernel>();
  for (const name of functions.keys()) {
    const run = exports[name];
    if (!isKernel(run)) throw new TypeError(`The module exports no function ${name}.`);
    kernels.set(name, run);
  }
  return kernels;
}

function instantiate(
  functions: ReadonlyMap<string, FunctionBuilder>,
  memory: WebAssembly.Memory,
): WebAssembly.Exports {
  const { buffer } = memory;
  const shared = !(buffer instanceof ArrayBuffer);
  // No property of a memory tells its width, but only a module of the same width links to it.
  const widths = buffer.byteLength > 2 ** 32 ? (['wide'] as const) : (['narrow', 'wide'] as const);
  for (const width of widths) {
    try {
      const module = compile(functions, { shared, width });
      return new WebAssembly.Instance(module, { env: { memory } }).exports;
    } catch (error) {
      if (!(error instanceof WebAssembly.LinkError)) throw error;
    }
  }
  throw new RangeError(`No module links to this memory of ${buffer.byteLength} bytes.`);
}

function compile(
  functions: ReadonlyMap<string, FunctionBuilder>,
  type: MemoryType,
): WebAssembly.Module {
  const modules = compiled.get(functions) ?? new Map<string, WebAssembly.Module>();
  const key = `${type.width} ${type.shared}`;
  const module = modules.get(key) ?? new WebAssembly.Module(encodeModule(functions, type));
  compiled.set(functions, modules.set(key, module));
  return module;
}

function isKernel(exported: WebAssembly.ExportValue | undefined): exported is Kernel {
  return typeof exported === 'function';
}
