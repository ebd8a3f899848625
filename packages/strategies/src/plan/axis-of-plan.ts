import { LayoutError, type MeshAxis } from '@shardwise/core/extend';

/** Returns the number of ranks of a mesh axis. Throws LayoutError for an axis that the mesh does not have. */
export function requireAxis(strategy: string, axes: readonly MeshAxis[], axis: string): number {
  const size = axes.find(({ name }) => name === axis)?.size;
  if (size !== undefined) return size;
  throw new LayoutError(
    {
      asked: `${strategy} over the mesh axis '${axis}'`,
      found: `the axes ${axes.map(({ name }) => name).join(', ') || '(none)'}`,
      todo: 'Name an axis of the mesh',
    },
    { axis, axes },
  );
}
