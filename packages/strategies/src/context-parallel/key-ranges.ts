import { full, stack, type Tensor } from '@shardwise/core/extend';
import type { Stretch } from './sequence-cut.ts';

/** What limits the keys that queries see. */
export interface KeyLimits {
  /** The places of the queries in their sequence. Shape: i32 [T]. */
  readonly places: Tensor;
  /** The number of tokens of the sequence. Padding lies behind them. */
  readonly length: number;
  readonly causal: boolean;
  /** The first place that each query sees, and one more than the last. Shape: i32 [B|1, T, 2]. Null: all. */
  readonly ranges: Tensor | null;
}

/** The first place that each query sees, and one more than the last. Shape: -> i32 [B|1, T, 2]. */
export function visibleKeys({ places, length, causal, ranges }: KeyLimits): Tensor {
  const [queries = 0] = places.shape;
  const row = [1, queries];
  const first = ranges?.select(2, 0) ?? full(row, 0, 'i32');
  const ends = [
    ...(causal ? [places.reshape(row).add(1)] : []),
    ...(ranges === null ? [] : [ranges.select(2, 1)]),
  ];
  const end = ends.reduce((a, b) => a.minimum(b), full(row, length, 'i32'));
  return stack([first, end.expand(first.shape)], 2);
}

/**
 * The ranges in a block of places, which lie behind each other in it. The places of a range that are in the block lie
 * behind each other, too: a range that ends in a later stretch has all of the stretches before, from where it begins.
 * Shape: ranges i32 [B|1, T, 2] -> [B|1, T, 2].
 */
export function rangesInBlock(ranges: Tensor, block: readonly Stretch[]): Tensor {
  const before = block.map(({ start, stop }) => ranges.sub(start).clamp(0, stop - start));
  const [first = ranges, ...rest] = before;
  return rest.reduce((sum, each) => sum.add(each), first);
}
