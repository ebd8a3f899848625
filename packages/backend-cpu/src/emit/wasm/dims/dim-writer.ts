import { type Code, FunctionBuilder, type Local, usize, v128 } from '@shardwise/wasm-assembler';

type Address = Local<'usize'>;
type Vector = Local<'v128'>;

const LANES = 4;
const ELEMENT_BYTES = 4;
const VECTOR_BYTES = 16;

/** Adjacent columns that are walked along together: whole vectors, or one element that fills all lanes. */
export interface Columns {
  /** How many vectors the columns take. */
  readonly vectors: number;
  /** Where the columns begin in a value [outer, size, inner], in bytes from the value's start. */
  readonly start: Address;
  /** Where the columns lie in a value [outer, inner], in bytes from the value's start. */
  readonly place: Address;
  readonly load: (address: Code<'usize'>, vector: number) => Vector;
  readonly store: (address: Code<'usize'>, value: Code<'v128'>, vector: number) => void;
}

/**
 * Writes kernels that walk along the middle dim of values [outer, size, inner] with elements of 32 bits, several
 * columns at once. Parameters: outer, size, inner, then addresses.
 */
export class DimWriter {
  readonly fn: FunctionBuilder;
  readonly size: Local<'usize'>;
  /** The bytes from one element of a column to the next. */
  readonly strideBytes: Local<'usize'>;
  readonly #outer: Local<'usize'>;
  readonly #inner: Local<'usize'>;

  constructor(addresses: number) {
    this.fn = new FunctionBuilder(3 + addresses);
    this.#outer = this.fn.parameter(0);
    this.size = this.fn.parameter(1);
    this.#inner = this.fn.parameter(2);
    this.strideBytes = this.fn.let(usize.mul(this.#inner, usize.const(ELEMENT_BYTES)));
  }

  address(index: number): Address {
    return this.fn.parameter(3 + index);
  }

  /** Writes `body` for all columns: for `vectors` vectors at once, then for four columns, then for one. */
  eachColumn(body: (columns: Columns) => void, vectors = 1): void {
    const { fn } = this;
    const outer = fn.let(usize.const(0));
    const column = fn.let(usize.const(0));
    const start = fn.let(usize.const(0));
    const place = fn.let(usize.const(0));
    const rest = fn.let(usize.mul(this.strideBytes, usize.sub(this.size, usize.const(1))));
    const walk = (elements: number): void => {
      const bytes = usize.const(elements * ELEMENT_BYTES);
      fn.forSteps(column, elements, this.#inner, () => {
        body(elements === 1 ? single(fn, start, place) : whole(fn, start, place, elements / LANES));
        fn.set(start, usize.add(start, bytes));
        fn.set(place, usize.add(place, bytes));
      });
    };
    fn.forSteps(outer, 1, this.#outer, () => {
      fn.set(column, usize.const(0));
      for (const elements of new Set([vectors * LANES, LANES, 1])) walk(elements);
      fn.set(start, usize.add(start, rest));
    });
  }
}

function whole(fn: FunctionBuilder, start: Address, place: Address, vectors: number): Columns {
  return {
    vectors,
    start,
    place,
    load: (address, vector) => fn.let(v128.load(address, vector * VECTOR_BYTES)),
    store: (address, value, vector) => fn.do(v128.store(address, value, vector * VECTOR_BYTES)),
  };
}

function single(fn: FunctionBuilder, start: Address, place: Address): Columns {
  return {
    vectors: 1,
    start,
    place,
    load: (address) => fn.let(v128.load32Splat(address)),
    store: (address, value) => fn.do(v128.store32Lane0(address, value)),
  };
}
