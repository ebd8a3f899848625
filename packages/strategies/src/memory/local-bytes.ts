import {
  axisSize,
  elementCount,
  firstPlace,
  type Layout,
  localShape,
  type MeshAxis,
  type Shape,
  shardedAxes,
} from '@shardwise/core/extend';

/** Returns the number of equal parts into which the ranks divide a value of this layout. */
export function partsOf(layout: Layout, axes: readonly MeshAxis[]): number {
  return shardedAxes(layout).reduce((product, axis) => product * axisSize(axes, axis), 1);
}

/** Returns the number of elements of a value on one rank, rounded up if the ranks do not divide it. */
export function localElements(shape: Shape, layout: Layout, axes: readonly MeshAxis[]): number {
  return elementCount(localShape(shape, layout, firstPlace(axes)));
}
