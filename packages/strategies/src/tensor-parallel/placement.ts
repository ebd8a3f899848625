import type { OptionRule } from '@shardwise/core/extend';
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

/** What an option that is a placement may be. */
export const placementRule: OptionRule<Placement> = {
  fits: (value): value is Placement => value === 'partial' || unsummedPlacementRule.fits(value),
  is: "'invariant', 'replicate', 'partial' or shard(dim)",
};

/** As placementRule, of a value that is no sum over ranks any more. */
export const unsummedPlacementRule: OptionRule<Exclude<Placement, 'partial'>> = {
  fits: (value): value is Exclude<Placement, 'partial'> =>
    value === 'invariant' || value === 'replicate' || isShard(value),
  is: "'invariant', 'replicate' or shard(dim)",
};

function isShard(value: unknown): value is ShardPlacement {
  return (
    typeof value === 'object' &&
    value !== null &&
    'shard' in value &&
    Number.isSafeInteger(value.shard)
  );
}

export function formatPlacement(placement: Placement): string {
  return typeof placement === 'string' ? placement : `shard(${placement.shard})`;
}
