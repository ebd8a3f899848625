import {
  elementCount,
  type Layout,
  localShape,
  type MeshAxis,
  type Shape,
  shardedAxes,
} from '@shardwise/core/extend';
import { axisSize, firstPlace } from '../layout/axis-size.ts';

/** In how many parts of one size a value of this layout lies on the ranks. */
export function partsOf(layout: Layout, axes: readonly MeshAxis[]): number {
  return shardedAxes(layout).reduce((product, axis) => product * axisSize(axes, axis), 1);
}

/** Elements of a value on one rank, rounded up where the ranks do not divide it. */
export function localElements(shape: Shape, layout: Layout, axes: readonly MeshAxis[]): number {
  return elementCount(localShape(shape, layout, firstPlace(axes)));
}
