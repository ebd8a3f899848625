import {
  addNodes,
  concat,
  type HalfDType,
  type Node,
  noGrad,
  Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { computationsOf, type Schedule } from '../../pipeline-schedule/actions/schedule.ts';
import type { BuiltBatch } from '../microbatches/build-microbatches.ts';
import { type LossFactor, shareOf } from '../microbatches/loss-weight.ts';
import type { PipelinePlace } from '../microbatches/microbatch.ts';
import { forwardDraft, numberedCrossings } from './forward-drafts.ts';
import type { WorkDraft } from './rank-work.ts';

/** A tensor that the model returns for the whole batch. */
export interface BatchResult {
  readonly node: Node;
  /** The stage that makes the tensor. Null if each rank computes it by itself. */
  readonly stage: number | null;
  /** The results of the microbatches, from which the tensor is joined or averaged. */
  readonly parts: readonly Node[];
}

/**
 * Returns the work of a rank that evaluates a batch. Scalar results of microbatches are averaged by their weights.
 * Other results are concatenated.
 */
export function evaluationWork(
  { microbatches, outputs, factors }: BuiltBatch,
  schedule: Schedule,
  place: PipelinePlace,
  activationDtype: HalfDType | null,
): { readonly drafts: readonly WorkDraft[]; readonly results: readonly BatchResult[] } {
  const crossings = numberedCrossings(microbatches, activationDtype);
  const results = (outputs[0] ?? []).map(({ ndim, node }, index): BatchResult => {
    const parts = outputs.map((each) => each[index] ?? new Tensor(node));
    const stage = microbatches[0]?.graph.stageOf(node) ?? null;
    const nodes = parts.map((part) => part.node);
    const joined = withoutValues(() =>
      noGrad(() => (ndim === 0 ? weightedSum(nodes, factors) : concat(parts, 0).node)),
    );
    // The result of a single microbatch can be a node that another program reads.
    return { node: joined, stage, parts: nodes };
  });
  const drafts = (schedule.actions[place.rank] ?? []).flatMap(computationsOf).flatMap((action) => {
    const { stage, microbatch } = action;
    const own = microbatches[microbatch];
    if (own === undefined) return [];
    const item = forwardDraft(stage, crossings[microbatch] ?? [], own, microbatch, place);
    for (const result of results) {
      const part = result.parts[microbatch];
      if (part !== undefined && result.stage === stage) item.computes.add(part);
    }
    return [item];
  });
  return { drafts, results };
}

function weightedSum(parts: readonly Node[], factors: readonly LossFactor[]): Node {
  const terms = parts.flatMap((part, index) => {
    const factor = factors[index];
    return factor === undefined ? [] : [shareOf(part, factor)];
  });
  return terms.reduce(addNodes);
}
