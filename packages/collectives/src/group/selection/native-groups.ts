/** What a library that carries a group's messages can do for groups in addition, as MPI does. */
export interface NativeGroups {
  /**
   * Makes the groups that result from a split of group `parent`. `ranks` are the world's ranks in this rank's new
   * group, which gets the number `id`, or undefined if this rank is in none. All ranks of `parent` call it, in the same
   * order.
   */
  divide(parent: number, id: number, ranks: Promise<readonly number[] | undefined>): Promise<void>;
  /** Notes that the group has failed, so that messages of its calls may be left over. */
  spoil(id: number): void;
  /** Notes that this rank has closed the group. */
  leave(id: number): void;
  collectives(id: number): NativeCollectives;
}

/** Collectives of one group that the library carries out by itself. The group's ranks call them in the same order. */
export interface NativeCollectives {
  /** Shape: input [n] -> output [W*n]. */
  allGather(input: Uint8Array, output: Uint8Array): Promise<void>;
  broadcast(buffer: Uint8Array, root: number): Promise<void>;
}
