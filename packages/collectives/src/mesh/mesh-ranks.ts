import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError, type MeshAxis } from '@shardwise/core/spec';

const axesRules = {
  axes: option.required(option.listOf(option.object<MeshAxis>('{ name, size }'))),
};
const axisRules: OptionRules<MeshAxis> = {
  name: option.required(option.text),
  size: option.required(option.number),
};

/**
 * Computes which rank is where on a mesh. This follows from the sizes alone, so plans and launchers can ask
 * without a world. Ranks are row-major with the last axis fastest, as in createMesh.
 */
export class MeshRanks {
  readonly axes: readonly MeshAxis[];

  /** Throws ConfigError for axes that are named twice or have no ranks. */
  constructor(axes: readonly MeshAxis[]) {
    checkOptions('A mesh', { axes }, axesRules);
    for (const axis of axes) checkOptions('An axis of a mesh', axis, axisRules);
    const names = new Set(axes.map(({ name }) => name));
    const isSound = axes.every(
      ({ name, size }) => name !== '' && Number.isInteger(size) && size > 0,
    );
    if (axes.length === 0 || names.size < axes.length || !isSound) {
      throw new ConfigError(
        {
          asked: `A mesh of ${formatGrid(axes) || 'no axes'}`,
          found: 'no axis, a name that is empty or there twice, or an axis without ranks',
          todo: 'Name at least one axis, each of them once, and give each at least one rank',
        },
        { axes },
      );
    }
    this.axes = axes.map(({ name, size }) => ({ name, size }));
  }

  /** The number of ranks. */
  get size(): number {
    return this.axes.reduce((product, { size }) => product * size, 1);
  }

  /** A rank's coordinate along each axis. Throws ConfigError for a rank that the mesh does not have. */
  coordinatesOf(rank: number): ReadonlyMap<string, number> {
    if (!Number.isInteger(rank) || rank < 0 || rank >= this.size) {
      throw this.#refusal(
        `the coordinates of rank ${rank}`,
        `Use a rank from 0 to ${this.size - 1}`,
      );
    }
    let rest = rank;
    const reversed = this.axes.toReversed().map(({ name, size }) => {
      const coordinate = rest % size;
      rest = Math.floor(rest / size);
      return [name, coordinate] as const;
    });
    return new Map(reversed.reverse());
  }

  /**
   * The ranks with these coordinates, in order. An axis that is not named may have any coordinate. Throws
   * ConfigError for coordinates that the mesh does not have.
   */
  ranksAt(coordinates: Readonly<Record<string, number>>): readonly number[] {
    const wanted = Object.entries(coordinates);
    for (const [axis, coordinate] of wanted) this.#checkCoordinate(axis, coordinate);
    return this.#ranks().filter((rank) => {
      const own = this.coordinatesOf(rank);
      return wanted.every(([axis, coordinate]) => own.get(axis) === coordinate);
    });
  }

  /**
   * The groups of ranks that differ only along these axes, in the order of their first ranks. Several axes count as
   * one, of which the last one named is the fastest. Throws ConfigError for axes that the mesh does not have.
   */
  groups(...names: readonly string[]): readonly (readonly number[])[] {
    if (new Set(names).size < names.length) {
      throw this.#refusal(`groups along [${names.join(', ')}]`, 'Name each axis once');
    }
    const across = this.axes.filter(({ name }) => !names.includes(name));
    const along = names.map((name) => this.#axis(name));
    const groups = new Map<number, number[]>();
    for (const rank of this.#ranks()) {
      const own = this.coordinatesOf(rank);
      const key = indexOf(own, across);
      const group = groups.get(key) ?? [];
      group[indexOf(own, along)] = rank;
      groups.set(key, group);
    }
    return [...groups.values()];
  }

  #ranks(): number[] {
    return Array.from({ length: this.size }, (_, rank) => rank);
  }

  #axis(name: string): MeshAxis {
    const axis = this.axes.find((own) => own.name === name);
    if (axis !== undefined) return axis;
    throw this.#refusal(`the axis '${name}'`, 'Use one of these axes');
  }

  #checkCoordinate(name: string, coordinate: number): void {
    const { size } = this.#axis(name);
    if (Number.isInteger(coordinate) && coordinate >= 0 && coordinate < size) return;
    const asked = `the ranks at ${name} ${coordinate}`;
    throw this.#refusal(asked, `Use a coordinate from 0 to ${size - 1}`);
  }

  #refusal(asked: string, todo: string): ConfigError {
    const found = `a mesh of ${formatGrid(this.axes)}`;
    return new ConfigError({ asked, found, todo }, { axes: this.axes });
  }
}

function indexOf(coordinates: ReadonlyMap<string, number>, axes: readonly MeshAxis[]): number {
  return axes.reduce((index, { name, size }) => index * size + (coordinates.get(name) ?? 0), 0);
}

/** The axes for messages: `dp 2 x tp 3`. */
export function formatGrid(axes: readonly MeshAxis[]): string {
  return axes.map(({ name, size }) => `${name} ${size}`).join(' x ');
}
