import type { HalfDType } from '@shardwise/core/extend';
import { tagOf } from '../messages/message.ts';
import type { Crossing } from '../microbatches/microbatch-graph.ts';
import type { Microbatch, PipelinePlace } from '../microbatches/microbatch.ts';
import { draft, type WorkDraft } from './rank-work.ts';

/** A value that crosses between stages in one microbatch, with its number in the pass. */
export interface NumberedCrossing extends Crossing {
  readonly number: number;
  /** The dtype in which the value and its gradient travel between ranks. Null: their own dtype. */
  readonly sentAs: HalfDType | null;
}

/** Numbers the crossing values of all microbatches of a pass. `dtype` is the one in which f32 values travel. */
export function numberedCrossings(
  microbatches: readonly Microbatch[],
  dtype: HalfDType | null,
): NumberedCrossing[][] {
  let count = 0;
  return microbatches.map(({ graph }) =>
    graph.crossings.map((crossing) => {
      const sentAs = crossing.node.dtype === 'f32' ? dtype : null;
      return { ...crossing, number: count++, sentAs };
    }),
  );
}

/** The forward pass of one stage for one microbatch: the values that it receives, computes for others, and sends. */
export function forwardDraft(
  stage: number,
  crossings: readonly NumberedCrossing[],
  { updates, graph, carried }: Microbatch,
  microbatch: number,
  { rank, rankOfStage }: PipelinePlace,
): WorkDraft {
  const nodes = crossings.flatMap(({ from, node }) => (from === stage ? [node] : []));
  const item = draft(`${stage}F${microbatch}`, { stage, microbatch, nodes });
  for (const crossing of crossings) {
    const { number, sentAs } = crossing;
    const tag = tagOf('activation', number);
    if (crossing.to === stage) {
      const peer = rankOfStage[crossing.from] ?? 0;
      if (peer !== rank) item.receives.push({ node: crossing.node, peer, tag, sentAs });
    }
    if (crossing.from === stage) {
      item.computes.add(crossing.node);
      const peer = rankOfStage[crossing.to] ?? 0;
      if (peer !== rank) item.sends.push({ node: crossing.node, peer, tag, sentAs });
    }
  }
  for (const node of [...updates.keys(), ...carried])
    if (graph.stageOf(node) === stage) item.computes.add(node);
  return item;
}
