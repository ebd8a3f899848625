/**
 * Says which part of a tensor each rank of a mesh has. Along an axis that is not named, all ranks have the same value
 * and use it in the same way (the type `invariant`).
 */
export interface Layout {
  /**
   * Per dim of the tensor, the axes that shard it, outermost first: ceil(size / ranks) elements each, and
   * fewer or none for the last ranks (torch.chunk); the next axis shards what each of them has.
   */
  readonly dims: readonly (readonly string[])[];
  /** Axes over which the tensor is the sum of what the ranks have. */
  readonly partial: readonly string[];
  /**
   * By axis: sizes of the sections of the dim that it shards, each of which it shards by itself, as the rows
   * of queries, keys and values in one weight. They sum to what the axes before it leave of the dim.
   */
  readonly sections?: Readonly<Record<string, readonly number[]>>;
  /** By axis: how many indices, or elements, each rank has at most, where that is not ceil(size / ranks). */
  readonly chunkSizes?: Readonly<Record<string, number>>;
  /** Axes that shard, after the dims, the elements row by row; outermost first. */
  readonly flat?: readonly string[];
  /** Axes whose ranks have the same value, and each use it in their own way: its gradient is partial. */
  readonly replicate?: readonly string[];
  /** Axes whose ranks each have a value of their own, as where they train without communication. */
  readonly varying?: readonly string[];
  /** The one rank of an axis that has it; the others have nothing between two steps. */
  readonly only?: { readonly axis: string; readonly rank: number };
}
