import {
  CollectiveMismatchError,
  dtypes,
  hashOffset,
  mixed,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { batchMark, isSameData } from '../../agreement/batch-mark.ts';
import type { Microbatch } from '../microbatches/microbatch.ts';
import type { SharedParameter } from '../work/shared-parameters.ts';

/**
 * Returns a mark that differs between different passes. It covers the shapes and the data of their batches (see
 * batchMark), and the values that cross between stages, and the parameters that ranks send to stages.
 */
export function passMark(
  inputs: readonly unknown[],
  microbatches: readonly Microbatch[],
  shared: readonly SharedParameter[],
): Int32Array<ArrayBuffer> {
  const { shapes, data } = batchMark(inputs);
  let crossings = hashOffset;
  for (const { graph } of microbatches) {
    for (const { node, from, to } of graph.crossings) {
      const { bytes } = dtypes[node.dtype];
      for (const each of [from, to, bytes, ...node.shape]) crossings = mixed(crossings, each);
    }
  }
  for (const { index, owner, readers } of shared) {
    for (const [reader, gradient] of readers) {
      for (const each of [index, owner, reader, Number(gradient)])
        crossings = mixed(crossings, each);
    }
  }
  return Int32Array.of(shapes, data, crossings);
}

/**
 * Compares the marks of all ranks. It is a collective. Throws CollectiveMismatchError on all ranks if they were given
 * different batches, or if the tensors that their stages would exchange do not match.
 */
export async function requireSamePass(
  mark: Int32Array<ArrayBuffer>,
  group: ProcessGroup,
): Promise<void> {
  if (group.size === 1) return;
  const all = new Int32Array(mark.length * group.size);
  await group.allGather(
    { bytes: new Uint8Array(mark.buffer), dtype: 'i32' },
    { bytes: new Uint8Array(all.buffer), dtype: 'i32' },
  );
  const [shapes, data, crossings] = all;
  for (let rank = 1; rank < group.size; rank++) {
    const [ownShapes, ownData, ownCrossings] = all.subarray(mark.length * rank);
    if (ownShapes !== shapes) throw otherBatch(rank, 'shape');
    if (!isSameData(data, ownData)) throw otherBatch(rank, 'data');
    if (ownCrossings !== crossings) throw otherCrossings(rank);
  }
}

function otherBatch(rank: number, what: 'shape' | 'data'): CollectiveMismatchError {
  return new CollectiveMismatchError(
    {
      asked: 'to pass a batch through the stages of a pipeline',
      found: `the ${what} of the batch differs between rank ${rank} and rank 0`,
      todo: 'Give all ranks of the pipeline the same batch: split a dataset over the ranks of dp alone',
    },
    { rank },
  );
}

function otherCrossings(rank: number): CollectiveMismatchError {
  return new CollectiveMismatchError(
    {
      asked: 'to pass a batch through the stages of a pipeline',
      found: `the forward pass of rank ${rank} would send other tensors, or tensors of other shapes, between stages than that of rank 0`,
      todo: 'Make forward() the same on all ranks: it must not depend on the rank, or on random numbers that differ between ranks',
    },
    { rank },
  );
}
