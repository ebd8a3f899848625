import { type Bytes, flatten, unsigned } from './code.ts';
import { type FunctionBuilder, kindBytes } from './function-builder.ts';

/** Runs on the memory that it was instantiated with; takes addresses in bytes and counts. Some return a number. */
export type Kernel = (...parameters: number[]) => number | undefined;

const MAX_PAGES = 65536;
const FUNCTION_TYPE = 0x60;
const HAS_MAXIMUM = 0x01;
const SHARED = 0x02;

/** A module of one function that imports a memory of any size. */
export function encodeModule(kernel: FunctionBuilder, shared: boolean): Uint8Array<ArrayBuffer> {
  const parameters = Array.from({ length: kernel.parameterCount }, () => kindBytes.i32);
  const limits = shared
    ? [HAS_MAXIMUM | SHARED, unsigned(0), unsigned(MAX_PAGES)]
    : [0, unsigned(0)];
  const body = kernel.encode();
  const results = kernel.returns ? [kindBytes.i32] : [];
  return new Uint8Array(
    flatten([
      [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      section(1, [FUNCTION_TYPE, vector(parameters), vector(results)]),
      section(2, [name('host'), name('memory'), 0x02, limits]),
      section(3, [0]),
      section(7, [name('run'), 0x00, 0]),
      section(10, [unsigned(body.length), body]),
    ]),
  );
}

/** Compiles at once, on this thread: kernels are small. */
export function instantiate(bytes: Uint8Array<ArrayBuffer>, memory: WebAssembly.Memory): Kernel {
  const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), { host: { memory } });
  const run = instance.exports['run'];
  if (typeof run !== 'function') throw new TypeError('A kernel module exports no function run.');
  return (...parameters) => {
    const result: unknown = Reflect.apply(run, undefined, parameters);
    return typeof result === 'number' ? result : undefined;
  };
}

/** A section with one entry. */
function section(id: number, entry: Bytes): Bytes {
  const bytes = flatten(entry);
  return [id, unsigned(bytes.length + 1), 1, bytes];
}

function vector(bytes: readonly number[]): Bytes {
  return [unsigned(bytes.length), bytes];
}

function name(text: string): Bytes {
  return vector([...new TextEncoder().encode(text)]);
}
