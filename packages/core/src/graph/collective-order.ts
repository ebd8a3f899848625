import type { Node } from './node.ts';

/**
 * Computing is lazy, and communicating is not: the collectives of a rank are issued in the order in which its program
 * made them, whatever it reads, when, and whether at all. Each of them is issued once. Laziness only decides when. A run
 * that issues a collective therefore issues all that the program made before it, and a run that updates tensors issues
 * all that there are.
 *
 * - `program`: a collective takes its place in the order where it is made.
 * - `ifUsed`: it takes its place where something first uses it. What the library makes ahead, such as gathers of
 *   parameters that no expression may read, is not issued for nothing.
 * - `reductionIfUsed`: the same, for a reduction of gradients that the next one may replace. It also takes its place
 *   where the program makes another collective.
 * - `apart`: somebody else gives it an order, such as the schedule of a pipeline, or it never runs.
 */
export type CollectiveOrder = 'program' | 'ifUsed' | 'reductionIfUsed' | 'apart';

/** One forward pass of a model. */
export interface ForwardPass {
  /** Whether gradients may be taken of it. */
  readonly isGradEnabled: boolean;
  /** The largest id of its nodes. Infinity until the pass has been built. */
  lastId: number;
  /** Its results. Empty until it has been built, and if it failed. */
  outputs: readonly Node[];
}

/** What is known of a collective that the program has made and that has not been issued yet. */
export interface Unissued {
  /** The forward pass that it belongs to. */
  readonly pass: ForwardPass | null;
}
