import type { ValueKind } from './code.ts';
import { encodeModule } from './encode-module.ts';
import type { FunctionBuilder } from './function-builder.ts';
import { widthOf } from './memory.ts';

/** Takes addresses in bytes, counts, and what else its function has as parameters. */
export type Kernel = (...parameters: readonly number[]) => number | undefined;

/** The functions on a memory of any width, by the same names. Compiles at once, on this thread. */
export function instantiateKernels(
  functions: ReadonlyMap<string, FunctionBuilder>,
  memory: WebAssembly.Memory,
): ReadonlyMap<string, Kernel> {
  const width = widthOf(memory);
  const shared = !(memory.buffer instanceof ArrayBuffer);
  const module = new WebAssembly.Module(encodeModule(functions, { shared, width }));
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  const kernels = new Map<string, Kernel>();
  for (const [name, { parameters }] of functions) {
    const run = exports[name];
    if (!isKernel(run)) throw new TypeError(`The module exports no function ${name}.`);
    kernels.set(name, width === 'narrow' ? run : takingNumbers(run, parameters));
  }
  return kernels;
}

function isKernel(exported: WebAssembly.ExportValue | undefined): exported is Kernel {
  return typeof exported === 'function';
}

/** JavaScript passes integers of 64 bits as BigInt. */
function takingNumbers(run: Kernel, kinds: readonly ValueKind[]): Kernel {
  return (...parameters) => {
    const values = parameters.map((value, index) =>
      kinds[index] === 'usize' ? BigInt(value) : value,
    );
    const result: unknown = Reflect.apply(run, undefined, values);
    return result === undefined ? undefined : Number(result);
  };
}
