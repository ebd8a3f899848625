import { addParts, constantLike, type Node, noGrad } from '@shardwise/core/extend';
import type { Microbatch, PipelinePlace } from './microbatch.ts';
import { tagOf } from './message.ts';
import { draft, type WorkDraft } from './rank-work.ts';
import { leafWithoutContents } from './stage-gradients.ts';

/** A parameter that stages of other ranks read than the one that has it. */
export interface SharedParameter {
  readonly leaf: Node;
  readonly owner: number;
  /** Its place among the parameters, the same on all ranks. */
  readonly index: number;
  /** Ranks that read it, and whether they owe it a gradient. */
  readonly readers: ReadonlyMap<number, boolean>;
}

/** Where the parameters of a model are: a leaf's rank, and its place in the list. */
export type ParameterPlaces = ReadonlyMap<Node, { readonly owner: number; readonly index: number }>;

export function sharedParameters(
  microbatches: readonly Microbatch[],
  parameters: ParameterPlaces,
  { rankOfStage }: PipelinePlace,
): SharedParameter[] {
  const found = new Map<Node, Map<number, boolean>>();
  for (const { graph } of microbatches) {
    for (const [leaf, stages] of graph.reads) {
      const place = parameters.get(leaf);
      for (const [stage, gradient] of stages) {
        const rank = rankOfStage[stage] ?? 0;
        if (place === undefined || rank === place.owner) continue;
        const readers = found.get(leaf) ?? new Map<number, boolean>();
        readers.set(rank, gradient || readers.get(rank) === true);
        found.set(leaf, readers);
      }
    }
  }
  return [...found].flatMap(([leaf, readers]) => {
    const place = parameters.get(leaf);
    return place === undefined ? [] : [{ leaf, ...place, readers }];
  });
}

/** Gives ranks the parameters that they read and others have, once a pass; `updates` are made first. */
export function lendParameters(
  shared: readonly SharedParameter[],
  rank: number,
  updates: readonly Node[],
): WorkDraft[] {
  // Two ranks may lend each other something: nobody waits before it has given.
  const [lend, borrow] = [draft('lend'), draft('borrow')];
  for (const update of updates) lend.computes.add(update);
  for (const { leaf, owner, index, readers } of shared) {
    for (const reader of readers.keys()) {
      const tag = tagOf('parameter', index);
      if (rank === owner) lend.sends.push({ node: leaf, peer: reader, tag });
      if (rank === reader) borrow.receives.push({ node: leaf, peer: owner, tag });
    }
  }
  return [lend, borrow];
}

/**
 * Gives the ranks that have parameters what others owe them, once a pass. `gradients` are the sums of this rank, by leaf;
 * afterwards those that it has are the sums of all.
 */
export function returnGradients(
  shared: readonly SharedParameter[],
  rank: number,
  gradients: Map<Node, Node>,
): WorkDraft[] {
  const [give, add] = [draft('return'), draft('add')];
  for (const { leaf, owner, index, readers } of shared) {
    for (const [reader, gradient] of readers) {
      if (!gradient) continue;
      const tag = tagOf('parameterGradient', index);
      const own = gradients.get(leaf);
      if (rank === reader) {
        const node = own ?? noGrad(() => constantLike(leaf, 0));
        give.computes.add(node);
        give.sends.push({ node, peer: owner, tag });
      }
      if (rank === owner) {
        const node = leafWithoutContents(leaf);
        add.receives.push({ node, peer: reader, tag });
        gradients.set(leaf, own === undefined ? node : noGrad(() => addParts(own, node)));
      }
    }
    const total = gradients.get(leaf);
    if (rank !== owner) gradients.delete(leaf);
    else if (total !== undefined) add.computes.add(total);
  }
  return [give, add];
}
