import type { MeshAxis, PlaceOf } from '@shardwise/core/extend';

/** Ranks of an axis; 1 of one that the mesh does not have. */
export function axisSize(axes: readonly MeshAxis[], name: string): number {
  return axes.find((axis) => axis.name === name)?.size ?? 1;
}

/** The rank that has most of everything. */
export function firstPlace(axes: readonly MeshAxis[]): PlaceOf {
  return (axis) => ({ size: axisSize(axes, axis), rank: 0 });
}
