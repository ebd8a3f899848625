import { LayoutError, type MeshAxis } from '@shardwise/core/extend';

/** The mesh axes over which a batch is divided. */
export interface BatchAxes {
  readonly axis: string;
  /** A mesh axis whose ranks hold the same states, and have other batches (hybrid sharding). Default: none. */
  readonly replicas?: string | undefined;
}

/** The names of these axes, that of `axis` first. */
export function batchAxesOf({ axis, replicas }: BatchAxes): readonly string[] {
  return replicas === undefined ? [axis] : [axis, replicas];
}

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
