import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { reduceElements } from '../reduce/reduce-elements.ts';
import {
  isKernelDType,
  kernelOpOf,
  pairKernelName,
  reduceKernelModule,
  tableKernelName,
  type KernelDType,
  type KernelOp,
} from '../reduce/reduce-kernel.ts';

/** The memory of a world, as one rank works on it. Addresses are byte offsets. */
export class SharedMemory {
  readonly bytes: Uint8Array;
  readonly #words: Uint32Array;
  readonly #table: number;
  readonly #bounce: MemoryBlock;
  readonly #exports: WebAssembly.Exports;
  readonly #copy: Kernel;
  /** The kernels by op and then by dtype, so that a call need not make up their names. */
  readonly #kernels = new Map<KernelOp, Map<KernelDType, ReduceKernels>>();

  /** `table` is this rank's place for addresses, `bounce` its place for results on their way to other memory. */
  constructor(memory: WebAssembly.Memory, table: number, bounce: MemoryBlock) {
    this.bytes = new Uint8Array(memory.buffer);
    this.#words = new Uint32Array(memory.buffer);
    this.#table = table;
    this.#bounce = bounce;
    const module = new WebAssembly.Module(reduceKernelModule(true));
    this.#exports = new WebAssembly.Instance(module, { env: { memory } }).exports;
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
    const word = this.#table / 4;
    this.#words.set(sources, word);
    this.#words.set(destinations, word + sources.length);
    const sourcesEnd = this.#table + 4 * sources.length;
    const tableEnd = sourcesEnd + 4 * destinations.length;
    table(this.#table, sourcesEnd, tableEnd, byteLength, scale);
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
    const known = this.#kernels.get(op)?.get(dtype);
    if (known !== undefined) return known;
    const kernels = {
      pair: this.#kernel(pairKernelName(dtype, op)),
      table: this.#kernel(tableKernelName(dtype, op)),
    };
    const ofOp = this.#kernels.get(op) ?? new Map<KernelDType, ReduceKernels>();
    this.#kernels.set(op, ofOp.set(dtype, kernels));
    return kernels;
  }

  #kernel(name: string): Kernel {
    const exported = this.#exports[name];
    if (!isKernel(exported)) throw new RangeError(`The module has no kernel ${name}`);
    return exported;
  }
}

type Kernel = (...parameters: readonly number[]) => void;

interface ReduceKernels {
  readonly pair: Kernel;
  readonly table: Kernel;
}

function isKernel(exported: WebAssembly.ExportValue | undefined): exported is Kernel {
  return typeof exported === 'function';
}

export interface MemoryBlock {
  readonly byteOffset: number;
  readonly byteLength: number;
}
