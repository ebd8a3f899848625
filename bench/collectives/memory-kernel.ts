/**
 * The work in memory of a host's reductions. W buffers are read, and their sums are stored to all of them or to the
 * first.
 */
export interface MemoryKernel {
  /** Addresses and byteLength must be multiples of 128 bytes. */
  reduceToAll(addresses: readonly number[], byteLength: number): void;
  reduceToOne(addresses: readonly number[], byteLength: number): void;
  copy(to: number, from: number, byteLength: number): void;
}

const VECTORS = 8;
const I32 = 0x7f;
const V128 = 0x7b;

/** Makes plain loops of SIMD loads, adds and stores for `size` buffers. They contain no code of the library. */
export function memoryKernel(memory: WebAssembly.Memory, size: number): MemoryKernel {
  const module = new WebAssembly.Module(assemble(size));
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  const functionOf = (name: string): ((...parameters: readonly number[]) => void) => {
    const exported = exports[name];
    if (typeof exported !== 'function') throw new TypeError(`the module has no ${name}`);
    return (...parameters) => void exported(...parameters);
  };
  const toAll = functionOf('all');
  const toOne = functionOf('one');
  return {
    reduceToAll: (addresses, byteLength) => toAll(...addresses, byteLength),
    reduceToOne: (addresses, byteLength) => toOne(...addresses, byteLength),
    copy: functionOf('copy'),
  };
}

type Bytes = readonly number[];

/**
 * Assembles the module. The functions all and one take W addresses and byteLength. copy takes to, from and byteLength.
 */
function assemble(size: number): Uint8Array<ArrayBuffer> {
  const params = (count: number): Bytes => [0x60, count, ...Array(count).fill(I32), 0];
  const code = [body(size, size), body(size, 1), COPY];
  return Uint8Array.from([
    ...HEADER,
    ...section(1, [2, ...params(size + 1), ...params(3)]),
    ...section(2, [1, ...name('env'), ...name('memory'), 2, 3, ...u32(1), ...u32(65535)]),
    ...section(3, [3, 0, 0, 1]),
    ...section(7, [3, ...name('all'), 0, 0, ...name('one'), 0, 1, ...name('copy'), 0, 2]),
    ...section(10, [3, ...code.flatMap((bytes) => [...u32(bytes.length), ...bytes])]),
  ]);
}

/** v128.load and v128.store with an alignment of 16 bytes, after which the offset follows, and f32x4.add. */
const LOAD: Bytes = [0xfd, 0x00, 4];
const STORE: Bytes = [0xfd, 0x0b, 4];
const ADD: Bytes = [0xfd, 0xe4, 1];
const LOCALS: Bytes = [2, 1, I32, VECTORS, V128];
const HEADER: Bytes = [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0];
const COPY: Bytes = [0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 10, 0, 0, 0x0b];

/** Assembles: for (; offset < byteLength; offset += 128) { sums of 8 vectors; store them `destinations` times } */
function body(size: number, destinations: number): Bytes {
  const [byteLength, offset, vectors] = [size, size + 1, size + 2];
  const address = (index: number): Bytes => [0x20, index, 0x20, offset, 0x6a];
  const load = (index: number, vector: number): Bytes => [
    ...address(index),
    ...LOAD,
    ...u32(16 * vector),
  ];
  const sums = range(VECTORS).flatMap((vector) => [
    ...load(0, vector),
    ...range(size - 1).flatMap((other) => [...load(other + 1, vector), ...ADD]),
    0x21,
    vectors + vector,
  ]);
  const stores = range(destinations).flatMap((index) =>
    range(VECTORS).flatMap((vector) => [
      ...address(index),
      0x20,
      vectors + vector,
      ...STORE,
      ...u32(16 * vector),
    ]),
  );
  const next: Bytes = [0x20, offset, 0x41, 0x80, 1, 0x6a, 0x22, offset];
  const again: Bytes = [0x20, byteLength, 0x49, 0x0d, 0];
  return [...LOCALS, 0x03, 0x40, ...sums, ...stores, ...next, ...again, 0x0b, 0x0b];
}

function section(id: number, content: Bytes): Bytes {
  return [id, ...u32(content.length), ...content];
}

function name(text: string): Bytes {
  return [text.length, ...new TextEncoder().encode(text)];
}

function u32(value: number): Bytes {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...u32(value >>> 7)];
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index);
}
