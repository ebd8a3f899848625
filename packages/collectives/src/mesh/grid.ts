import type { CallOptions, MeshAxis, ProcessGroup } from '@shardwise/core/spec';

/** The grid that all meshes of one world are cut from: row-major, the last axis fastest. */
export interface Grid {
  readonly world: ProcessGroup;
  readonly axes: readonly MeshAxis[];
}

/** The ranks that differ from this one along these axes of the grid only. */
export async function groupAlong(
  { world, axes }: Grid,
  names: readonly string[],
  options?: CallOptions,
): Promise<ProcessGroup> {
  const coordinates = coordinatesOf(world.rank, axes);
  const indexAlong = (chosen: readonly MeshAxis[]): number =>
    chosen.reduce((index, { name, size }) => index * size + (coordinates.get(name) ?? 0), 0);
  const along = names.flatMap((name) => axes.filter((axis) => axis.name === name));
  const across = axes.filter(({ name }) => !names.includes(name));
  const isInOrder = axes
    .filter(({ name }) => names.includes(name))
    .every((axis, index) => axis === along[index]);
  if (isInOrder && sizeOf(along) === world.size) return world;
  const group = await world.split(indexAlong(across), indexAlong(along), options);
  if (group !== undefined) return group;
  throw new TypeError('A rank with a colour is in a group');
}

function coordinatesOf(rank: number, axes: readonly MeshAxis[]): ReadonlyMap<string, number> {
  let rest = rank;
  return new Map(
    axes.toReversed().map(({ name, size }) => {
      const coordinate = rest % size;
      rest = Math.floor(rest / size);
      return [name, coordinate];
    }),
  );
}

/** Number of ranks along all of them. */
export function sizeOf(axes: readonly MeshAxis[]): number {
  return axes.reduce((product, { size }) => product * size, 1);
}
