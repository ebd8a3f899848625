/**
 * Says which part of a tensor each rank of a mesh has. Along an axis that is not named, all ranks have the same value
 * and use it in the same way (the type `invariant`).
 */
export interface Layout {
  /**
   * For each dim of the tensor, the axes that shard it, outermost first. Ranks have ceil(size / ranks) indices of the
   * dim each, and the last ranks have fewer or none (torch.chunk). The next axis shards what each of these ranks has.
   */
  readonly dims: readonly (readonly string[])[];
  /** Axes over which the tensor is the sum of the values of the ranks. */
  readonly partial: readonly string[];
  /**
   * By axis: sizes of the sections of the dim that the axis shards. Each section is sharded by itself, such as the
   * rows of queries, keys and values in one weight. The sizes add up to what the axes before this one leave of the dim.
   */
  readonly sections?: Readonly<Record<string, readonly number[]>>;
  /**
   * By axis: the largest number of indices (of elements, for an axis of `flat`) that a rank has, if this is not
   * ceil(size / ranks).
   */
  readonly chunkSizes?: Readonly<Record<string, number>>;
  /** Axes that shard the flattened elements of what the axes of `dims` leave on a rank. Outermost first. */
  readonly flat?: readonly string[];
  /** Axes whose ranks have the same value and each use it in their own way, so its gradient is partial. */
  readonly replicate?: readonly string[];
  /** Axes whose ranks each have their own value, for example if they train without communication. */
  readonly varying?: readonly string[];
  /** The one rank of an axis that has the tensor. The others have nothing between two steps. */
  readonly only?: { readonly axis: string; readonly rank: number };
}
