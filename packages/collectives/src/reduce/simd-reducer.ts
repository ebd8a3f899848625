import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { FRAGMENT_BYTES } from '../algorithms/fragments.ts';
import { kernelOpOf, isKernelDType, reduceKernelModule, tableKernelName } from './reduce-kernel.ts';
import { foldElements, type Fold } from './reduce-elements.ts';
import type { Reducer } from './reducer.ts';

/** The number of fragments that can be lent at a time. */
const FRAGMENTS = 32;
const TABLE_BYTES = 64 * 1024;
/** Values in other memory are copied here block by block; a block stays in the nearest cache. */
const BLOCK_BYTES = 32 * 1024;
const BLOCKS = 64;
const PAGE_BYTES = 64 * 1024;

const STAGING = TABLE_BYTES;
const LENT = STAGING + BLOCKS * BLOCK_BYTES;
const MEMORY_BYTES = LENT + FRAGMENTS * FRAGMENT_BYTES;

/**
 * Reduces with SIMD in a WebAssembly.Memory of its own, of which the system gives only the pages that are used:
 *
 *   addresses | blocks of sources and results that are in other memory | fragments that are lent
 */
export class SimdReducer implements Reducer {
  readonly #free: number[] = [];
  #unused = 0;
  #bytes: Uint8Array | undefined;
  #words = new Uint32Array(0);
  #exports: WebAssembly.Exports = {};

  borrow(byteLength: number): Uint8Array {
    if (byteLength > FRAGMENT_BYTES) return new Uint8Array(byteLength);
    const fragment = this.#free.pop() ?? (this.#unused < FRAGMENTS ? this.#unused++ : undefined);
    if (fragment === undefined) return new Uint8Array(byteLength);
    const start = LENT + fragment * FRAGMENT_BYTES;
    return this.#memory().subarray(start, start + byteLength);
  }

  giveBack(bytes: Uint8Array): void {
    if (!this.isLent(bytes)) return;
    this.#free.push((bytes.byteOffset - LENT) / FRAGMENT_BYTES);
  }

  /** Whether the bytes are in the memory that `borrow` lends. */
  protected isLent(bytes: Uint8Array): boolean {
    return bytes.buffer === this.#bytes?.buffer;
  }

  reduce(
    sources: readonly Uint8Array[],
    destination: Uint8Array,
    dtype: DType,
    op: ReduceOp,
  ): void {
    this.fold({ partial: undefined, sources, dtype, op, total: sources.length }, destination);
  }

  fold(fold: Fold, destination: Uint8Array): void {
    const { partial, sources: own, dtype, total } = fold;
    // Values were multiplied by the factor when they became a partial sum, and an average is divided at the
    // end.
    const op = fold.op === 'avg' && total === undefined ? 'sum' : fold.op;
    const kernelOp = kernelOpOf(op);
    const sources = partial === undefined ? own : [partial, ...own];
    const scalesPartial = partial !== undefined && kernelOp === 'premultipliedSum';
    if (
      !isKernelDType(dtype) ||
      kernelOp === undefined ||
      scalesPartial ||
      sources.length >= BLOCKS
    ) {
      foldElements(fold, [destination]);
      return;
    }
    const memory = this.#memory();
    const name = tableKernelName(dtype, kernelOp);
    const kernel = this.#exports[name];
    if (typeof kernel !== 'function') throw new RangeError(`The module has no kernel ${name}`);
    const scale = typeof op === 'object' ? op.premultipliedSum : (total ?? 1);
    const isHere = (bytes: Uint8Array): boolean =>
      bytes.buffer === memory.buffer && bytes.byteOffset % dtypes[dtype].bytes === 0;
    const places = [...sources, destination].map((bytes, index) => ({
      bytes,
      isHere: isHere(bytes),
      block: STAGING + index * BLOCK_BYTES,
    }));
    const result = places[sources.length];
    const tableEnd = 4 * places.length;
    for (let start = 0; start < destination.byteLength; start += BLOCK_BYTES) {
      const byteLength = Math.min(BLOCK_BYTES, destination.byteLength - start);
      for (const [index, place] of places.entries()) {
        this.#words[index] = place.isHere ? place.bytes.byteOffset + start : place.block;
        if (place.isHere || place === result) continue;
        memory.set(place.bytes.subarray(start, start + byteLength), place.block);
      }
      kernel(0, tableEnd - 4, tableEnd, byteLength, scale);
      if (result !== undefined && !result.isHere) {
        destination.set(memory.subarray(result.block, result.block + byteLength), start);
      }
    }
  }

  #memory(): Uint8Array {
    if (this.#bytes !== undefined) return this.#bytes;
    const pages = MEMORY_BYTES / PAGE_BYTES;
    // The memory never grows, because growing would detach it from bytes that are under way.
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const module = new WebAssembly.Module(reduceKernelModule(false));
    this.#exports = new WebAssembly.Instance(module, { env: { memory } }).exports;
    this.#words = new Uint32Array(memory.buffer);
    this.#bytes = new Uint8Array(memory.buffer);
    return this.#bytes;
  }
}
