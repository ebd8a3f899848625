import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { directAllReduce } from '../algorithms/direct-all-reduce.ts';
import { directGather } from '../algorithms/direct-gather.ts';
import { directReduceScatter } from '../algorithms/direct-reduce-scatter.ts';
import { directReduce } from '../algorithms/direct-reduce.ts';
import { directScatter } from '../algorithms/direct-scatter.ts';
import { disseminationBarrier } from '../algorithms/dissemination-barrier.ts';
import { pairwiseAllToAll } from '../algorithms/pairwise-all-to-all.ts';
import { ringAllGather } from '../algorithms/ring-all-gather.ts';
import { treeBroadcast } from '../algorithms/tree-broadcast.ts';
import { twoPhaseAllReduce } from '../algorithms/two-phase-all-reduce.ts';
import type { Reducer } from '../reduce/reducer.ts';
import type { Wire } from '../algorithms/wire.ts';
import type { GroupCall } from '../call/group-call.ts';
import type { Operation } from '../call/record.ts';

/** Up to here a message costs more by being one than by its bytes. */
const DIRECT_BYTES = 64 * 1024;

export interface RunOptions {
  readonly reducer: Reducer;
  /** Settles when all ranks are known to have made the call; only allReduce may run before. */
  readonly agreed: Promise<void>;
}

/** Carries out a call that all ranks have made. */
export function runAlgorithm(wire: Wire, call: GroupCall, options: RunOptions): Promise<void> {
  return algorithms[call.record.operation](wire, call, options);
}

type Run = (wire: Wire, call: GroupCall, options: RunOptions) => Promise<void>;

const algorithms: Record<Operation, Run> = {
  allReduce: (wire, call, options) => {
    const { dtype, reduce } = reductionOf(call);
    return call.input.byteLength <= DIRECT_BYTES
      ? directAllReduce(wire, call.input, dtype, reduce, options)
      : twoPhaseAllReduce(wire, call.input, dtype, reduce, options);
  },
  reduceScatter: (wire, call, { reducer }) => {
    const { dtype, reduce } = reductionOf(call);
    return directReduceScatter(wire, call.input, call.output, dtype, reduce, reducer);
  },
  reduce: (wire, call, { reducer }) => {
    const { dtype, reduce } = reductionOf(call);
    return directReduce(wire, call.input, rootOf(call), dtype, reduce, reducer);
  },
  allGather: (wire, { input, output }) => ringAllGather(wire, input, output),
  allToAll: (wire, { record, input, output }) => {
    const { splits, dtype } = record;
    const elementBytes = dtype === undefined ? 1 : dtypes[dtype].bytes;
    const inBytes = (elements: readonly number[]): number[] =>
      elements.map((count) => count * elementBytes);
    return pairwiseAllToAll(wire, input, output, {
      input: inBytes(splits?.input ?? []),
      output: inBytes(splits?.output ?? []),
    });
  },
  broadcast: (wire, call) => {
    const root = rootOf(call);
    return treeBroadcast(wire, wire.rank === root ? call.input : call.output, root);
  },
  gather: (wire, call) => directGather(wire, call.input, call.output, rootOf(call)),
  scatter: (wire, call) => directScatter(wire, call.input, call.output, rootOf(call)),
  barrier: (wire) => disseminationBarrier(wire),
  // What a split needs to know, the ranks have told each other when they met.
  split: () => Promise.resolve(),
};

function reductionOf({ record }: GroupCall): { readonly dtype: DType; readonly reduce: ReduceOp } {
  const { dtype, reduce } = record;
  if (dtype !== undefined && reduce !== undefined) return { dtype, reduce };
  throw new TypeError(`${record.operation} without a dtype or a reduction`);
}

function rootOf({ record }: GroupCall): number {
  if (record.root !== undefined) return record.root;
  throw new TypeError(`${record.operation} without a root`);
}
