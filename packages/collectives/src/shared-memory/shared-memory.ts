import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import type { Kernel } from '@shardwise/wasm-assembler';
import { AddressTable } from '../reduce/address-table.ts';
import { reduceElements } from '../reduce/reduce-elements.ts';
import {
  isKernelDType,
  kernelOpOf,
  pairKernelName,
  reduceKernels,
  tableKernelName,
  type KernelDType,
  type KernelOp,
} from '../reduce/reduce-kernel.ts';

/** The memory of a world, as one rank works on it. Addresses are byte offsets. */
export class SharedMemory {
  readonly bytes: Uint8Array;
  readonly #buffer: ArrayBufferLike;
  readonly #table: AddressTable;
  readonly #bounce: MemoryBlock;
  readonly #kernels: ReadonlyMap<string, Kernel>;
  readonly #copy: Kernel;
  /** The kernels by op and then by dtype, so that a call need not make up their names. */
  readonly #reductions = new Map<KernelOp, Map<KernelDType, ReduceKernels>>();

  /** `table` is this rank's place for addresses, `bounce` its place for results on their way to other memory. */
  constructor(memory: WebAssembly.Memory, table: number, bounce: MemoryBlock) {
    this.#buffer = memory.buffer;
    this.bytes = new Uint8Array(memory.buffer);
    this.#table = new AddressTable(memory, table);
    this.#bounce = bounce;
    this.#kernels = reduceKernels(memory);
    this.#copy = this.#kernel('copy');
  }

  /** Whether the bytes are in this memory, in a place from which kernels can load whole elements. */
  holds({ buffer, byteOffset }: Uint8Array, dtype: DType | undefined): boolean {
    if (buffer !== this.#buffer) return false;
    return dtype === undefined || byteOffset % dtypes[dtype].bytes === 0;
  }

  /** Copies `byteLength` bytes from the shared memory to byte `start` of `to`, which may be in it, too. */
  copyOut(address: number, to: Uint8Array, start: number, byteLength: number): void {
    if (byteLength === 0) return;
    if (to.buffer !== this.#buffer) {
      to.set(this.bytes.subarray(address, address + byteLength), start);
    } else if (to.byteOffset + start !== address) {
      this.#copy(to.byteOffset + start, address, byteLength);
    }
  }

  copyIn(from: Uint8Array, address: number): void {
    this.bytes.set(from, address);
  }

  /** Reduces in the order of `sources`, and writes the result to every destination. */
  reduce(
    sources: readonly number[],
    destinations: readonly number[],
    byteLength: number,
    dtype: DType,
    op: ReduceOp,
  ): void {
    if (byteLength === 0) return;
    const kernelOp = kernelOpOf(op);
    if (!isKernelDType(dtype) || kernelOp === undefined) {
      const view = (address: number): Uint8Array =>
        this.bytes.subarray(address, address + byteLength);
      reduceElements(sources.map(view), destinations.map(view), dtype, op);
      return;
    }
    const scale = typeof op === 'object' ? op.premultipliedSum : sources.length;
    const { pair, table } = this.#kernelsOf(kernelOp, dtype);
    const [first, second] = sources;
    if (
      first !== undefined &&
      second !== undefined &&
      sources.length === 2 &&
      destinations.length === 2 &&
      destinations[0] === first &&
      destinations[1] === second
    ) {
      pair(first, second, byteLength, scale);
      return;
    }
    const { byteOffset } = this.#table;
    const sourcesEnd = this.#table.write(sources, 0);
    const tableEnd = this.#table.write(destinations, sources.length);
    table(byteOffset, sourcesEnd, tableEnd, byteLength, scale);
  }

  /** Reduces into bytes `start` to `stop` of `to`, which may be outside of the shared memory. */
  reduceOut(
    sources: readonly number[],
    to: Uint8Array,
    start: number,
    stop: number,
    dtype: DType,
    op: ReduceOp,
  ): void {
    if (this.holds(to, dtype)) {
      this.reduce(sources, [to.byteOffset + start], stop - start, dtype, op);
      return;
    }
    const { byteOffset, byteLength } = this.#bounce;
    for (let at = start; at < stop; at += byteLength) {
      const from = sources.map((source) => source + at - start);
      const fragmentBytes = Math.min(byteLength, stop - at);
      this.reduce(from, [byteOffset], fragmentBytes, dtype, op);
      this.copyOut(byteOffset, to, at, fragmentBytes);
    }
  }

  #kernelsOf(op: KernelOp, dtype: KernelDType): ReduceKernels {
    const known = this.#reductions.get(op)?.get(dtype);
    if (known !== undefined) return known;
    const kernels = {
      pair: this.#kernel(pairKernelName(dtype, op)),
      table: this.#kernel(tableKernelName(dtype, op)),
    };
    const ofOp = this.#reductions.get(op) ?? new Map<KernelDType, ReduceKernels>();
    this.#reductions.set(op, ofOp.set(dtype, kernels));
    return kernels;
  }

  #kernel(name: string): Kernel {
    const kernel = this.#kernels.get(name);
    if (kernel === undefined) throw new RangeError(`The module has no kernel ${name}`);
    return kernel;
  }
}

interface ReduceKernels {
  readonly pair: Kernel;
  readonly table: Kernel;
}

export interface MemoryBlock {
  readonly byteOffset: number;
  readonly byteLength: number;
}
