import { allReduce, type Tensor } from '@shardwise/core/extend';
import { vocabParallelCrossEntropy } from '../vocab-parallel-cross-entropy.ts';
import { takeBlock } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';

/** Returns this rank's rows of a batch that is the same on all ranks. Shape: [B, ..] -> [B', ..]. */
export function ownRows(batch: Tensor, grid: RankGrid): Tensor {
  return takeBlock(batch, [grid.rows]);
}

/**
 * The mean cross-entropy over the batch of all ranks. It is the same on each rank. Logits are never gathered.
 * Shape: logits [B', .., V'] with the layout of `grid`, targets i32 [B', ..] -> [].
 */
export function gridCrossEntropy(logits: Tensor, targets: Tensor, grid: RankGrid): Tensor {
  const own = vocabParallelCrossEntropy(logits, targets, { axis: grid.features });
  return grid.rows.reduce(
    (mean, axis) => allReduce(mean, axis, { reduce: 'avg', to: 'invariant' }),
    own,
  );
}
