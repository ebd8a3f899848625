import type { ProcessGroup } from './process-group.ts';

/** The ranks of the world as a grid with named axes, seen from one rank. */
export interface Mesh {
  /** Outermost first. The product of sizes is the world size. */
  readonly axes: readonly MeshAxis[];
  /**
   * The ranks that differ from this one along one axis only, in the order of their coordinates. Throws
   * ConfigError for an unknown axis.
   */
  group(axis: string): ProcessGroup;
  /** This rank's place along an axis. Throws ConfigError for an unknown axis. */
  coordinate(axis: string): number;
}

/** One axis of a mesh, and how many ranks it has. */
export interface MeshAxis {
  readonly name: string;
  readonly size: number;
}
