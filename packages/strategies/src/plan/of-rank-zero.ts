import { broadcast, type Tensor, withoutValues } from '@shardwise/core/extend';

/** Returns the value of the rank that is first along each of the axes. Adds collectives to the graph. Shape: N -> N. */
export function ofRankZero(tensor: Tensor, axes: readonly string[]): Tensor {
  return withoutValues(() => axes.reduce((x, axis) => broadcast(x, axis), tensor));
}
