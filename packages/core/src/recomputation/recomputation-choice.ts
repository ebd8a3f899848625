import type { DType } from '../spec/dtype.ts';
import type { Op } from '../spec/op.ts';

/** What a budget has chosen for a pass. */
export interface RecomputationChoice {
  /** The bytes that the pass takes at its peak, by its plan. */
  readonly plannedBytes: number;
  /** The same if everything were kept. */
  readonly plannedBytesOfNone: number;
  /** The values that are recomputed, in the order of the program. */
  readonly recomputed: readonly {
    readonly op: Op;
    readonly shape: readonly number[];
    readonly dtype: DType;
  }[];
  /** The values that leave the device for pages and come back for the backward pass, in the order of the program. */
  readonly offloaded: RecomputationChoice['recomputed'];
  /** The bytes of the values that the backward pass finds on the device, that it recomputes, and that come back. */
  readonly bytes: {
    readonly kept: number;
    readonly recomputed: number;
    readonly offloaded: number;
  };
  /** The time of what is recomputed, and that in which the device waits for pages, by the speeds of the budget. */
  readonly seconds: { readonly recomputed: number; readonly offloaded: number };
  /** The floating-point operations of products that are computed again. */
  readonly recomputedFlops: number;
}
