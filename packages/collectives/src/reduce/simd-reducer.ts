import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import type { Kernel } from '@shardwise/wasm-assembler';
import { ADDRESS_BYTES, AddressTable } from './address-table.ts';
import { kernelOpOf, isKernelDType, reduceKernels, tableKernelName } from './reduce-kernel.ts';
import { foldElements, type Fold } from './reduce-elements.ts';
import { FRAGMENT_BYTES, type Reducer } from './reducer.ts';

/** The number of fragments that can be lent at a time. */
const FRAGMENTS = 32;
const TABLE_BYTES = 64 * 1024;
/** Values in other memory are copied here block by block. A block stays in the nearest cache. */
const BLOCK_BYTES = 32 * 1024;
const BLOCKS = 64;
const PAGE_BYTES = 64 * 1024;

const STAGING = TABLE_BYTES;
const LENT = STAGING + BLOCKS * BLOCK_BYTES;
const MEMORY_BYTES = LENT + FRAGMENTS * FRAGMENT_BYTES;

interface Workspace {
  readonly memory: Uint8Array;
  readonly table: AddressTable;
  readonly kernels: ReadonlyMap<string, Kernel>;
}

/**
 * Reduces with SIMD in a WebAssembly.Memory of its own, of which the system only gives the pages that are used:
 *
 *   addresses | blocks of sources and results that are in other memory | fragments that are lent
 */
export class SimdReducer implements Reducer {
  readonly #free: number[] = [];
  #unused = 0;
  /** The memory with its kernels and its table of addresses. It is made when it is first needed. */
  #lazyWorkspace: Workspace | undefined;

  borrow(byteLength: number): Uint8Array {
    if (byteLength > FRAGMENT_BYTES) return new Uint8Array(byteLength);
    const fragment = this.#free.pop() ?? (this.#unused < FRAGMENTS ? this.#unused++ : undefined);
    if (fragment === undefined) return new Uint8Array(byteLength);
    const start = LENT + fragment * FRAGMENT_BYTES;
    return this.#workspace().memory.subarray(start, start + byteLength);
  }

  giveBack(bytes: Uint8Array): void {
    if (!this.isLent(bytes)) return;
    this.#free.push((bytes.byteOffset - LENT) / FRAGMENT_BYTES);
  }

  /** Whether the bytes are in the memory that `borrow` lends. */
  protected isLent(bytes: Uint8Array): boolean {
    return bytes.buffer === this.#lazyWorkspace?.memory.buffer;
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
    // Values were multiplied by the factor when they became a partial sum, and an average is divided at the end.
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
    const { memory, table, kernels } = this.#workspace();
    const name = tableKernelName(dtype, kernelOp);
    const kernel = kernels.get(name);
    if (kernel === undefined) throw new RangeError(`The module has no kernel ${name}`);
    const scale = typeof op === 'object' ? op.premultipliedSum : (total ?? 1);
    const isHere = (bytes: Uint8Array): boolean =>
      bytes.buffer === memory.buffer && bytes.byteOffset % dtypes[dtype].bytes === 0;
    const places = [...sources, destination].map((bytes, index) => ({
      bytes,
      isHere: isHere(bytes),
      block: STAGING + index * BLOCK_BYTES,
    }));
    const result = places[sources.length];
    for (let start = 0; start < destination.byteLength; start += BLOCK_BYTES) {
      const byteLength = Math.min(BLOCK_BYTES, destination.byteLength - start);
      for (const place of places) {
        if (place.isHere || place === result) continue;
        memory.set(place.bytes.subarray(start, start + byteLength), place.block);
      }
      const addresses = places.map(({ bytes, isHere: here, block }) =>
        here ? bytes.byteOffset + start : block,
      );
      const tableEnd = table.write(addresses, 0);
      kernel(table.byteOffset, tableEnd - ADDRESS_BYTES, tableEnd, byteLength, scale);
      if (result !== undefined && !result.isHere) {
        destination.set(memory.subarray(result.block, result.block + byteLength), start);
      }
    }
  }

  #workspace(): Workspace {
    if (this.#lazyWorkspace !== undefined) return this.#lazyWorkspace;
    const pages = MEMORY_BYTES / PAGE_BYTES;
    // The memory never grows, because growing would detach it from bytes that are under way.
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    this.#lazyWorkspace = {
      memory: new Uint8Array(memory.buffer),
      table: new AddressTable(memory, 0),
      kernels: reduceKernels(memory),
    };
    return this.#lazyWorkspace;
  }
}
