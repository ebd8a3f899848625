import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { SimdReducer } from '../reduce/simd-reducer.ts';
import { nativeReduction } from './mpi-abi.ts';
import type { MpiCalls } from './mpi-calls.ts';

/**
 * Has MPI reduce the values whose type it knows. MPI works on values in place, while the SIMD kernels first copy values
 * that are not in their own memory.
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
      // MPI overwrites one of every two values that it combines.
      sources.filter((source) => !mayLose(source)).length <= 1;
    if (!isFit) {
      super.reduce(sources, destination, dtype, op);
      return;
    }
    const elements = destination.byteLength / elementBytes;
    // The bits of a op b are those of b op a, so the total may move into either memory.
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
