import { singleGroup } from '@shardwise/collectives';
import { ConfigError, type Mesh, type MeshAxis, type ProcessGroup } from '@shardwise/core/extend';

/** A mesh with the axes of another one, of one rank each. */
export class LoneMesh implements Mesh {
  readonly axes: readonly MeshAxis[];
  readonly #groups: ReadonlyMap<string, ProcessGroup>;

  constructor(axes: readonly MeshAxis[]) {
    this.axes = axes.map(({ name }) => ({ name, size: 1 }));
    this.#groups = new Map(axes.map(({ name }) => [name, singleGroup()]));
  }

  group(axis: string): ProcessGroup {
    const group = this.#groups.get(axis);
    if (group !== undefined) return group;
    throw new ConfigError(
      {
        asked: `the group of axis '${axis}'`,
        found: `a mesh with the axes ${this.axes.map(({ name }) => name).join(', ')}`,
        todo: 'Use one of these axes',
      },
      { axis, axes: this.axes },
    );
  }

  coordinate(axis: string): number {
    return this.group(axis).rank;
  }
}
