import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import { nativeReduction } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';

/**
 * Has MPI reduce where it knows the type: in the memory where the values lie, while the SIMD kernels copy what is
 * not in theirs.
 */
export class MpiReducer extends SimdReducer {
  readonly #calls: MpiCalls;

  constructor(calls: MpiCalls) {
    super();
    this.#calls = calls;
  }

  override reduce(
    sources: readonly Uint8Array[],
    destination: Uint8Array,
    dtype: DType,
    op: ReduceOp,
  ): void {
    const native = nativeReduction(dtype, op);
    const elementBytes = dtypes[dtype].bytes;
    const isDestination = ({ buffer, byteOffset }: Uint8Array): boolean =>
      buffer === destination.buffer && byteOffset === destination.byteOffset;
    const mayLose = (bytes: Uint8Array): boolean => isDestination(bytes) || this.isLent(bytes);
    const [first = destination, ...others] = sources;
    const isFit =
      native !== undefined &&
      others.length > 0 &&
      [...sources, destination].every(({ byteOffset }) => byteOffset % elementBytes === 0) &&
      // Of each two values that meet, one is lost.
      sources.filter((source) => !mayLose(source)).length <= 1;
    if (!isFit) {
      super.reduce(sources, destination, dtype, op);
      return;
    }
    const elements = destination.byteLength / elementBytes;
    // As a op b has the bits of b op a, the total may move on into either.
    let total = first;
    for (const source of others) {
      const into = isDestination(source) || !mayLose(total) ? source : total;
      const from = into === source ? total : source;
      this.#calls.reduceLocal(from, into, elements, native.type, native.op);
      total = into;
    }
    if (!isDestination(total)) destination.set(total);
  }
}
