import { allReduce, stack, type Tensor } from '@shardwise/core/extend';
import { takeBlock } from './grid-parameter.ts';
import type { RankGrid } from './rank-grid.ts';
import { vocabParallelCrossEntropy } from '../vocab-parallel-cross-entropy.ts';

/** Returns this rank's rows of a batch that is the same on all ranks. Shape: [B, ..] -> [B', ..]. */
export function ownRows(batch: Tensor, grid: RankGrid): Tensor {
  return takeBlock(batch, [grid.rows]);
}

/** Targets of this value do not count. */
const IGNORE_INDEX = -100;

/**
 * The mean cross-entropy over the batch of all ranks, of the targets that are not -100. It is the same on each rank.
 * Logits are never gathered. Shape: logits [B', .., V'] with the layout of `grid`, targets i32 [B', ..] -> [].
 */
export function gridCrossEntropy(logits: Tensor, targets: Tensor, grid: RankGrid): Tensor {
  const { features: axis, rows } = grid;
  const losses = vocabParallelCrossEntropy(logits, targets, {
    axis,
    ignoreIndex: IGNORE_INDEX,
    reduction: 'none',
  });
  const counted = targets.eq(IGNORE_INDEX).logicalNot().sum();
  // Ranks may have different numbers of targets that count.
  const all = rows.reduce(
    (sums, each) => allReduce(sums, each, { to: 'invariant' }),
    stack([losses.to('f32').sum(), counted.to('f32')]),
  );
  return all.select(0, 0).div(all.select(0, 1)).to(losses.dtype);
}
