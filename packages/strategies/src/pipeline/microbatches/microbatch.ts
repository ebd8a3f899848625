import type { Node, PendingWork } from '@shardwise/core/extend';
import type { MicrobatchGraph } from './microbatch-graph.ts';

/** A microbatch whose forward pass has been built and not computed. */
export interface Microbatch {
  readonly graph: MicrobatchGraph;
  /** The microbatch's share of the loss of the batch. Null in evaluation. */
  readonly loss: Node | null;
  /** Whether the microbatch adds to gradients. Null: it does. Shape: bool []. */
  readonly counts: Node | null;
  /** The updates of buffers that this rank's stages make, and the values of these stages that the program retains. */
  readonly updates: ReadonlyMap<Node, PendingWork>;
  /** The values of all stages that later microbatches read. */
  readonly carried: readonly Node[];
}

/** A rank's place in a pipeline. */
export interface PipelinePlace {
  readonly rank: number;
  readonly rankOfStage: readonly number[];
}
