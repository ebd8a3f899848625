import {
  type CallOptions,
  ConfigError,
  type Mesh,
  type MeshAxis,
  type ProcessGroup,
} from '@shardwise/core/spec';
import { type Grid, groupAlong } from './grid.ts';

/** A mesh from which other meshes can be made, as from PyTorch's DeviceMesh. */
export interface DeviceMesh extends Mesh {
  /**
   * The mesh of some of the axes, in the given order, with the same groups; `mesh['dp', 'tp']` in PyTorch.
   * Throws ConfigError for axes that the mesh does not have.
   */
  select(...axes: readonly string[]): DeviceMesh;
  /**
   * This mesh with an additional name, which stands for several of its axes as one axis. The last of them is
   * the fastest. `axes` stay as they are. It is a collective: all ranks call it with the same names. Throws
   * ConfigError for axes that the mesh does not have, and for a name that it already has.
   */
  flatten(axes: readonly string[], name: string, options?: CallOptions): Promise<DeviceMesh>;
}

export class GridMesh implements DeviceMesh {
  readonly axes: readonly MeshAxis[];
  readonly #grid: Grid;
  readonly #groups: ReadonlyMap<string, ProcessGroup>;

  /** `groups` has the group of every name that is known, those of `axes` and those of flattened axes. */
  constructor(grid: Grid, axes: readonly MeshAxis[], groups: ReadonlyMap<string, ProcessGroup>) {
    this.axes = axes;
    this.#grid = grid;
    this.#groups = groups;
  }

  group(axis: string): ProcessGroup {
    const group = this.#groups.get(axis);
    if (group !== undefined) return group;
    throw this.#refusal(`the group of axis '${axis}'`, [axis], 'Use one of these axes');
  }

  coordinate(axis: string): number {
    return this.group(axis).rank;
  }

  select(...axes: readonly string[]): DeviceMesh {
    this.#checkDistinct(axes);
    const groups = new Map(axes.map((axis) => [axis, this.group(axis)]));
    const selected = axes.map((name) => ({ name, size: this.group(name).size }));
    return new GridMesh(this.#grid, selected, groups);
  }

  async flatten(axes: readonly string[], name: string, options?: CallOptions): Promise<DeviceMesh> {
    this.#checkDistinct(axes);
    if (this.#groups.has(name)) {
      throw this.#refusal(`to flatten axes as '${name}'`, axes, 'Choose another name');
    }
    if (!axes.every((axis) => this.axes.some((own) => own.name === axis))) {
      throw this.#refusal(`to flatten [${axes.join(', ')}]`, axes, 'Use axes of the mesh');
    }
    const group = await groupAlong(this.#grid, axes, options);
    return new GridMesh(this.#grid, this.axes, new Map([...this.#groups, [name, group]]));
  }

  #checkDistinct(axes: readonly string[]): void {
    if (axes.length > 0 && new Set(axes).size === axes.length) return;
    const asked = `a mesh of the axes [${axes.join(', ')}]`;
    throw this.#refusal(asked, axes, 'Name at least one axis, and each of them once');
  }

  #refusal(asked: string, axes: readonly string[], todo: string): ConfigError {
    const found = `a mesh with the axes ${[...this.#groups.keys()].join(', ')}`;
    return new ConfigError({ asked, found, todo }, { axes });
  }
}
