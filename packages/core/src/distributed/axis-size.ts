import type { PlaceOf } from '../layout/chunks.ts';
import type { MeshAxis } from '../spec/mesh.ts';

/** Returns the number of ranks of an axis, or 1 for an axis that the mesh does not have. */
export function axisSize(axes: readonly MeshAxis[], name: string): number {
  return axes.find((axis) => axis.name === name)?.size ?? 1;
}

/** The place of the rank that has the most of every tensor. */
export function firstPlace(axes: readonly MeshAxis[]): PlaceOf {
  return (axis) => ({ size: axisSize(axes, axis), rank: 0 });
}
