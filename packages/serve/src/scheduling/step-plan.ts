import type { BlockCopy } from '../blocks/block-allocator.ts';
import type { BlockSwap } from '../blocks/swap-space.ts';
import type { ScheduledChunk, Sequence } from './sequence.ts';

/** What the next step does, and what happened to sequences since the step before. */
export interface StepPlan {
  /** The tokens to compute: at most one chunk of each sequence. */
  readonly chunks: readonly ScheduledChunk[];
  /** Blocks to copy before anything is written. */
  readonly copies: readonly BlockCopy[];
  /** Blocks to copy out of the cache before anything else. */
  readonly swapOuts: readonly BlockSwap[];
  /** Blocks to copy back into the cache then. */
  readonly swapIns: readonly BlockSwap[];
  /** Sequences whose blocks were taken. They wait again, and compute anew what has not been copied. */
  readonly preempted: readonly Sequence[];
  /** Sequences whose deadline has passed. They are gone. */
  readonly expired: readonly Sequence[];
}
