import { LayoutError, type MeshAxis } from '@shardwise/core/extend';

/** Ranks of an axis of the mesh. Throws LayoutError for one that there is not. */
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
