import { LayoutError } from '@shardwise/core/extend';

/** Returns the error for replicas over the axis of the parts. */
export function sameAxes(strategy: string, axis: string): LayoutError {
  return new LayoutError(
    {
      asked: `${strategy} over the mesh axis '${axis}', in replicas over '${axis}'`,
      found: 'one axis, whose ranks cannot hold different parts and the same ones',
      todo: 'Use a mesh of two axes, and name one for each',
    },
    { axis },
  );
}
