import type { ProcessGroup } from './process-group.ts';

/** The ranks of the world as a grid with named axes, seen from one rank. */
export interface Mesh {
  /** Outermost first; the product of sizes is the world size. */
  readonly axes: readonly MeshAxis[];
  /** This rank's group along an axis; throws ConfigError for an unknown one. */
  group(axis: string): ProcessGroup;
}

export interface MeshAxis {
  readonly name: string;
  readonly size: number;
}
