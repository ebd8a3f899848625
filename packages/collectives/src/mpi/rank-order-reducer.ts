import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import { nativeReduction, type NativeOp, type NativeType } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';

/** What a call reduces: which dtype, and how. */
export interface Reduction {
  readonly dtype: DType;
  readonly op: ReduceOp;
}

/**
 * Adds what all ranks have sent, in rank order. MPI does it where it knows the type, in the memory
 * of the caller; and SIMD kernels where it doesn't.
 */
export class RankOrderReducer {
  readonly #calls: MpiCalls;
  readonly #simd = new SimdReducer();

  constructor(calls: MpiCalls) {
    this.#calls = calls;
  }

  /** Memory for what is received only to be reduced. */
  borrow(byteLength: number): Uint8Array {
    return this.#simd.borrow(byteLength);
  }

  giveBack(bytes: Uint8Array): void {
    this.#simd.giveBack(bytes);
  }

  /**
   * `sources[rank]` is this rank's own, and stays as it is unless it is `destination`; the others
   * are borrowed, and lose their values.
   */
  reduce(
    sources: readonly Uint8Array[],
    rank: number,
    destination: Uint8Array,
    { dtype, op }: Reduction,
  ): void {
    const native = nativeReduction(dtype, op);
    const elementBytes = dtypes[dtype].bytes;
    const isNative =
      native !== undefined &&
      sources.length > 1 &&
      sources.every(({ byteOffset }) => byteOffset % elementBytes === 0) &&
      destination.byteOffset % elementBytes === 0;
    if (isNative) this.#fold(sources, rank, destination, native, elementBytes);
    else this.#simd.reduce(sources, destination, dtype, op);
  }

  #fold(
    sources: readonly Uint8Array[],
    rank: number,
    destination: Uint8Array,
    { type, op }: { readonly type: NativeType; readonly op: NativeOp },
    elementBytes: number,
  ): void {
    const elements = destination.byteLength / elementBytes;
    const [first = destination, second = destination] = sources;
    const own = sources[rank];
    const isInPlace =
      own?.buffer === destination.buffer && own.byteOffset === destination.byteOffset;
    // As a op b has the bits of b op a, the total may move on into either.
    let total = first;
    for (const [index, source] of sources.entries()) {
      if (index === 0) continue;
      const takesOver = isInPlace ? index === rank : rank === 0 && index === 1;
      const into = takesOver ? (isInPlace ? destination : second) : total;
      this.#calls.reduceLocal(takesOver ? total : source, into, elements, type, op);
      total = into;
    }
    if (!isInPlace) destination.set(total);
  }
}
