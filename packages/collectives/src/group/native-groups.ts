/** What a library that carries a group's messages, as MPI, does for it besides. */
export interface NativeGroups {
  /**
   * Makes the parts of group `parent`, when `ranks` is known: the ranks of the world in this rank's part, which has
   * number `id`; undefined where it is in none. All ranks of `parent` call it, in one order.
   */
  divide(parent: number, id: number, ranks: Promise<readonly number[] | undefined>): Promise<void>;
  /** The group has failed: messages of its calls may be left over. */
  spoil(id: number): void;
  /** This rank has closed the group. */
  leave(id: number): void;
  collectives(id: number): NativeCollectives;
}

/** Collectives of one group that a library has itself, for which its ranks call them in one order. */
export interface NativeCollectives {
  /** Shape: input [n] -> output [W*n]. */
  allGather(input: Uint8Array, output: Uint8Array): Promise<void>;
  broadcast(buffer: Uint8Array, root: number): Promise<void>;
}
