import type { Layout, Shape } from '@shardwise/core/extend';

/** One move of a redistribution, over one axis; `dim` is of the tensor. */
export type RedistributionMove =
  | { readonly operation: 'allGather'; readonly axis: string; readonly dim: number }
  | { readonly operation: 'allReduce'; readonly axis: string }
  | { readonly operation: 'reduceScatter'; readonly axis: string; readonly dim: number }
  | {
      readonly operation: 'allToAll';
      readonly axis: string;
      /** Whole afterwards. */
      readonly dim: number;
      /** Sharded afterwards. */
      readonly toDim: number;
    }
  /** Replicate to shard: each rank keeps its part. */
  | { readonly operation: 'slice'; readonly axis: string; readonly dim: number }
  /** Replicate to partial: the axis's first rank keeps its value, the others have zeros. */
  | { readonly operation: 'keepOnFirst'; readonly axis: string };

export interface RedistributionStep {
  readonly move: RedistributionMove;
  /** Of the tensor after it. */
  readonly layout: Layout;
  /** Received by the rank that receives the most, by algorithms that send each byte once; with padding. */
  readonly bytes: number;
}

/** How a tensor comes from one layout into another. */
export interface RedistributionPlan {
  readonly from: Layout;
  readonly to: Layout;
  /** Of the whole tensor. */
  readonly shape: Shape;
  readonly steps: readonly RedistributionStep[];
  /** Of all steps. */
  readonly bytes: number;
}
