import type { Node, PendingWork } from '@shardwise/core/extend';
import type { MicrobatchGraph } from './microbatch-graph.ts';

/** A microbatch whose forward pass was built and not computed. */
export interface Microbatch {
  readonly graph: MicrobatchGraph;
  /** Its share of the loss; null in evaluation. */
  readonly loss: Node | null;
  /** Updates of buffers, of all stages. */
  readonly updates: ReadonlyMap<Node, PendingWork>;
  /** What later microbatches read, of all stages. */
  readonly carried: readonly Node[];
}

/** A rank's place in a pipeline. */
export interface PipelinePlace {
  readonly rank: number;
  readonly rankOfStage: readonly number[];
}
