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
  readonly #table: AddressTable;
  readonly #bounce: MemoryBlock;
  readonly #kernels: ReadonlyMap<string, Kernel>;
  readonly #copy: Kernel;
  /** The kernels by op and then by dtype, so that a call need not make up their names. */
  readonly #reductions = new Map<KernelOp, Map<KernelDType, ReduceKernels>>();

  /** `table` is this rank's place for addresses, `bounce` its place for results on their way to other memory. */
  constructor(memory: WebAssembly.Memory, table: number, bounce: MemoryBlock) {
    this.bytes = new Uint8Array(memory.buffer);
    this.#table = new AddressTable(memory, table);
    this.#bounce = bounce;
    this.#kernels = reduceKernels(memory);
    this.#copy = this.#kernel('copy');
  }

  /**
   * The address of bytes; undefined where they are in other memory, or where kernels cannot load whole
   * elements.
   */
  addressOf(bytes: Uint8Array, dtype: DType | undefined): number | undefined {
    if (bytes.buffer !== this.bytes.buffer) return undefined;
    const alignment = dtype === undefined ? 1 : dtypes[dtype].bytes;
    return bytes.byteOffset % alignment === 0 ? bytes.byteOffset : undefined;
  }

  /** Copies from the shared memory to `to`, which may be in it, too. */
  copyOut(address: number, to: Uint8Array): void {
    if (to.byteLength === 0) return;
    if (to.buffer !== this.bytes.buffer) {
      to.set(this.bytes.subarray(address, address + to.byteLength));
    } else if (to.byteOffset !== address) {
      this.#copy(to.byteOffset, address, to.byteLength);
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

  /** Reduces into bytes that may be outside of the shared memory. */
  reduceOut(sources: readonly number[], to: Uint8Array, dtype: DType, op: ReduceOp): void {
    const address = this.addressOf(to, dtype);
    if (address !== undefined) {
      this.reduce(sources, [address], to.byteLength, dtype, op);
      return;
    }
    const { byteOffset, byteLength } = this.#bounce;
    for (let start = 0; start < to.byteLength; start += byteLength) {
      const fragment = to.subarray(start, start + byteLength);
      const from = sources.map((source) => source + start);
      this.reduce(from, [byteOffset], fragment.byteLength, dtype, op);
      this.copyOut(byteOffset, fragment);
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
