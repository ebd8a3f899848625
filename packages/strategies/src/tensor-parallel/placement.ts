/** How an activation lies on the ranks of the tensor-parallel axis. */
export type Placement =
  /** The same on all ranks, and so is its gradient: the value between two parallel regions. */
  | 'invariant'
  /** The same on all ranks, each uses its copy its own way. Its gradient is partial. */
  | 'replicate'
  /** The value is the sum over ranks. */
  | 'partial'
  /** Each rank has one part along this dim; negative ones count from the end. */
  | ShardPlacement;

export interface ShardPlacement {
  readonly shard: number;
}

/** Each rank has one part along `dim`; negative ones count from the end. */
export function shard(dim: number): ShardPlacement {
  return { shard: dim };
}

export function formatPlacement(placement: Placement): string {
  return typeof placement === 'string' ? placement : `shard(${placement.shard})`;
}
