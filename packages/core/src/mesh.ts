import { ConfigError } from './spec/errors.ts';
import type { Mesh, MeshAxis } from './spec/mesh.ts';
import type { AxisParams } from './spec/op.ts';
import type { ProcessGroup } from './spec/process-group.ts';

/** A mesh without axes: one rank alone. */
export class LocalMesh implements Mesh {
  readonly axes: readonly MeshAxis[] = [];

  group(axis: string): ProcessGroup {
    throw new ConfigError(
      {
        asked: `the group of axis '${axis}'`,
        found: 'a world of one rank without a mesh',
        todo: 'Start ranks with `shardwise run --nproc N`',
      },
      { axis },
    );
  }

  coordinate(axis: string): number {
    return this.group(axis).rank;
  }
}

/** A mesh of one axis over a whole group. */
export class LineMesh implements Mesh {
  readonly axes: readonly MeshAxis[];
  readonly #group: ProcessGroup;

  constructor(name: string, group: ProcessGroup) {
    this.axes = [{ name, size: group.size }];
    this.#group = group;
  }

  group(axis: string): ProcessGroup {
    if (this.axes.some(({ name }) => name === axis)) return this.#group;
    const names = this.axes.map(({ name }) => name).join(', ');
    throw new ConfigError(
      {
        asked: `the group of axis '${axis}'`,
        found: `a mesh with the axes ${names}`,
        todo: 'Use one of these axes',
      },
      { axis, axes: this.axes },
    );
  }

  coordinate(axis: string): number {
    return this.group(axis).rank;
  }
}

/** A mesh with an additional group. Its name is not an axis, so the axes of the mesh stay the same. */
export class ExtendedMesh implements Mesh {
  readonly axes: readonly MeshAxis[];
  readonly #mesh: Mesh;
  readonly #name: string;
  readonly #group: ProcessGroup;

  constructor(mesh: Mesh, name: string, group: ProcessGroup) {
    this.axes = mesh.axes;
    this.#mesh = mesh;
    this.#name = name;
    this.#group = group;
  }

  group(axis: string): ProcessGroup {
    return axis === this.#name ? this.#group : this.#mesh.group(axis);
  }

  coordinate(axis: string): number {
    return axis === this.#name ? this.#group.rank : this.#mesh.coordinate(axis);
  }
}

/** The number of this rank in the order of a mesh, whose last axis is the fastest, and the number of its ranks. */
export function placeInMesh(mesh: Mesh): { readonly rank: number; readonly worldSize: number } {
  let [rank, worldSize] = [0, 1];
  for (const { name, size } of mesh.axes) {
    rank = rank * size + mesh.coordinate(name);
    worldSize *= size;
  }
  return { rank, worldSize };
}

/** The parameters of collectives of the graph, from a mesh. */
export function axisOf(mesh: Mesh, axis: string): AxisParams {
  const group = mesh.group(axis);
  return { axis, size: group.size, rank: group.rank };
}
