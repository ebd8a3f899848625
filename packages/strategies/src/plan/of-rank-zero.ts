import { broadcast, type Tensor } from '@shardwise/core/extend';

/** The value of the rank that is the first along each of the axes. Collectives of the graph. Shape: N -> N. */
export function ofRankZero(tensor: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((x, axis) => broadcast(x, axis), tensor);
}
