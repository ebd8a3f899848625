import { type Bytes, flatten, unsigned } from './code.ts';
import { type FunctionBuilder, kindBytes } from './function-builder.ts';

const MAX_PAGES = 65536;
const FUNCTION_TYPE = 0x60;
const HAS_MAXIMUM = 0x01;
const SHARED = 0x02;
const MEMORY_IMPORT = 0x02;
const FUNCTION_EXPORT = 0x00;

/**
 * The bytes of a module that exports the functions by these names. It imports the memory `env.memory`, of any
 * size: a shared one (`shared`) or one that is not, as WebAssembly has modules choose.
 */
export function encodeModule(
  functions: ReadonlyMap<string, FunctionBuilder>,
  shared: boolean,
): Uint8Array<ArrayBuffer> {
  const limits = shared
    ? [HAS_MAXIMUM | SHARED, unsigned(0), unsigned(MAX_PAGES)]
    : [0, unsigned(0)];
  const builders = [...functions.values()];
  const types = builders.map(({ parameters, returns }) => [
    FUNCTION_TYPE,
    vector(parameters.map((kind) => kindBytes[kind])),
    vector(returns ? [kindBytes.i32] : []),
  ]);
  const exports = [...functions.keys()].map((text, index) => [
    name(text),
    FUNCTION_EXPORT,
    unsigned(index),
  ]);
  const bodies = builders.map((builder) => {
    const body = builder.encode();
    return [unsigned(body.length), body];
  });
  return new Uint8Array(
    flatten([
      [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      section(1, types),
      section(2, [[name('env'), name('memory'), MEMORY_IMPORT, limits]]),
      section(
        3,
        builders.map((_, index) => unsigned(index)),
      ),
      section(7, exports),
      section(10, bodies),
    ]),
  );
}

function section(id: number, entries: readonly Bytes[]): Bytes {
  const bytes = flatten(vector(entries));
  return [id, unsigned(bytes.length), bytes];
}

function vector(entries: Bytes): Bytes {
  return [unsigned(entries.length), entries];
}

function name(text: string): Bytes {
  return vector([...new TextEncoder().encode(text)]);
}
