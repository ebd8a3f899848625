import { addParts, constantLike, type Node, noGrad, withoutValues } from '@shardwise/core/extend';
import type { StandInParameter } from '../stand-in-parameter.ts';
import type { Microbatch, PipelinePlace } from './microbatch.ts';
import { tagOf } from './message.ts';
import { draft, type WorkDraft } from './rank-work.ts';
import { leafWithoutContents } from './stage-gradients.ts';

/** A parameter that stages of other ranks read than the one that has it. */
export interface SharedParameter {
  /** On the rank that has it, what that lends; on others the leaf that their stages read. Shape: what a stage reads. */
  readonly leaf: Node;
  readonly owner: number;
  /** Its place among the parameters, the same on all ranks. */
  readonly index: number;
  /** Ranks that read it, and whether they owe it a gradient. */
  readonly readers: ReadonlyMap<number, boolean>;
}

/** A parameter of the model. */
export interface PlacedParameter {
  readonly parameter: StandInParameter;
  readonly owner: number;
  /** Its place among the parameters, the same on all ranks. */
  readonly index: number;
}

/** The parameters of a model, by the leaves that expressions of them have under them. */
export type ParameterPlaces = ReadonlyMap<Node, PlacedParameter>;

export function sharedParameters(
  microbatches: readonly Microbatch[],
  parameters: ParameterPlaces,
  { rankOfStage }: PipelinePlace,
): SharedParameter[] {
  const found = new Map<PlacedParameter, Map<number, boolean>>();
  for (const { graph } of microbatches) {
    for (const [leaf, stages] of graph.reads) {
      const placed = parameters.get(leaf);
      for (const [stage, flows] of stages) {
        const rank = rankOfStage[stage] ?? 0;
        if (placed === undefined || rank === placed.owner) continue;
        const readers = found.get(placed) ?? new Map<number, boolean>();
        const gradient = flows && placed.parameter.part.requiresGrad;
        readers.set(rank, gradient || readers.get(rank) === true);
        found.set(placed, readers);
      }
    }
  }
  // In one order on all ranks, whose programs have other nodes.
  return [...found]
    .toSorted(([a], [b]) => a.index - b.index)
    .map(([{ parameter, owner, index }, readers]) => {
      const leaf = withoutValues(() => parameter.lent());
      return { leaf, owner, index, readers: new Map([...readers].toSorted(([a], [b]) => a - b)) };
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
      if (rank === owner) {
        if (leaf.value === null) lend.computes.add(leaf);
        lend.sends.push({ node: leaf, peer: reader, tag });
      }
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
