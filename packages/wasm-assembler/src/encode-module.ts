import { type Bytes, flatten, unsigned, type ValueKind, type Width } from './code.ts';
import { type FunctionBuilder, kindBytes } from './function-builder.ts';

const MAX_PAGES: Readonly<Record<Width, number>> = { narrow: 2 ** 16, wide: 2 ** 18 };
const FUNCTION_TYPE = 0x60;
const HAS_MAXIMUM = 0x01;
const SHARED = 0x02;
const ADDRESSES_OF_64_BITS = 0x04;
const MEMORY_IMPORT = 0x02;
const FUNCTION_EXPORT = 0x00;
const END = 0x0b;
const CALL = 0x10;
const LOCAL_GET = 0x20;
const I64_TRUNC_F64 = 0xb0;
const F64_CONVERT_I64 = 0xb9;

/** The type of the memory that a module imports. The module must state it, but not the size. */
export interface MemoryType {
  readonly shared: boolean;
  readonly width: Width;
}

/**
 * Returns the bytes of a module that imports the memory `env.memory` and exports the functions by these names.
 * JavaScript passes addresses and counts to them as numbers.
 */
export function encodeModule(
  functions: ReadonlyMap<string, FunctionBuilder>,
  { shared, width }: MemoryType,
): Uint8Array<ArrayBuffer> {
  const addresses = width === 'wide' ? ADDRESSES_OF_64_BITS : 0;
  const limits = shared
    ? [addresses | HAS_MAXIMUM | SHARED, unsigned(0), unsigned(MAX_PAGES[width])]
    : [addresses, unsigned(0)];
  const builders = [...functions.values()];
  const kernels = builders.map((builder): EncodedFunction => ({
    parameters: builder.parameters,
    result: builder.result,
    body: builder.encode(width),
  }));
  const callers =
    width === 'narrow' ? [] : kernels.map((kernel, index) => takingNumbers(kernel, index));
  const all = [...kernels, ...callers];
  const types = all.map(({ parameters, result }) => [
    FUNCTION_TYPE,
    vector(parameters.map((kind) => kindBytes[kind])),
    vector(result === undefined ? [] : [kindBytes[result]]),
  ]);
  const exports = [...functions.keys()].map((text, index) => [
    name(text),
    FUNCTION_EXPORT,
    unsigned(index + callers.length),
  ]);
  const bodies = all.map(({ body }) => [unsigned(body.length), body]);
  const section = (id: number, entries: readonly Bytes[]): Bytes => {
    const bytes = flatten(vector(entries), width);
    return [id, unsigned(bytes.length), bytes];
  };
  return new Uint8Array(
    flatten(
      [
        [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
        section(1, types),
        section(2, [[name('env'), name('memory'), MEMORY_IMPORT, limits]]),
        section(
          3,
          all.map((_, index) => unsigned(index)),
        ),
        section(7, exports),
        section(10, bodies),
      ],
      width,
    ),
  );
}

interface EncodedFunction {
  readonly parameters: readonly ValueKind[];
  readonly result: ValueKind | undefined;
  readonly body: readonly number[];
}

/**
 * Encodes a function that JavaScript calls with numbers, and that calls function `index` with integers. JavaScript
 * would otherwise have to pass 64-bit addresses as BigInt, which takes longer than many kernels do.
 */
function takingNumbers({ parameters, result }: EncodedFunction, index: number): EncodedFunction {
  const numberFor = (kind: ValueKind): ValueKind => (kind === 'usize' ? 'f64' : kind);
  const operands = parameters.map((kind, place) => [
    LOCAL_GET,
    unsigned(place),
    kind === 'usize' ? [I64_TRUNC_F64] : [],
  ]);
  const converted = result === 'usize' ? [F64_CONVERT_I64] : [];
  return {
    parameters: parameters.map(numberFor),
    result: result && numberFor(result),
    body: flatten([unsigned(0), operands, CALL, unsigned(index), converted, END], 'wide'),
  };
}

function vector(entries: Bytes): Bytes {
  return [unsigned(entries.length), entries];
}

function name(text: string): Bytes {
  return vector([...new TextEncoder().encode(text)]);
}
