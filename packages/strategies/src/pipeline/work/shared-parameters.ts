import { addParts, constantLike, type Node, noGrad, withoutValues } from '@shardwise/core/extend';
import type { PartReader } from '../../parameters/stand-in-placement.ts';
import { tagOf } from '../messages/message.ts';
import type { Microbatch, PipelinePlace } from '../microbatches/microbatch.ts';
import { draft, type WorkDraft } from './rank-work.ts';
import { leafWithoutContents } from './stage-gradients.ts';

/** A parameter that stages of ranks other than its owner read. */
export interface SharedParameter {
  /**
   * On the owner, the node that it sends. On other ranks, the leaf that their stages read. Shape: the one that a stage
   * reads.
   */
  readonly leaf: Node;
  readonly owner: number;
  /** The parameter's place among the model's parameters, the same on all ranks. */
  readonly index: number;
  /** The ranks that read the parameter, and whether they return a gradient. */
  readonly readers: ReadonlyMap<number, boolean>;
}

/** A parameter of the model. */
interface PlacedParameter {
  readonly reader: PartReader;
  readonly owner: number;
  /** The parameter's place among the model's parameters, the same on all ranks. */
  readonly index: number;
}

/** The parameters of a model, by the leaves that expressions of them read. */
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
        const gradient = flows && placed.reader.part.requiresGrad;
        readers.set(rank, gradient || readers.get(rank) === true);
        found.set(placed, readers);
      }
    }
  }
  // Sorted, because all ranks need the same order and their programs number nodes differently.
  return [...found]
    .toSorted(([a], [b]) => a.index - b.index)
    .map(([{ reader, owner, index }, readers]) => {
      const leaf = withoutValues(() => reader.readForStage());
      return { leaf, owner, index, readers: new Map([...readers].toSorted(([a], [b]) => a - b)) };
    });
}

/** Sends parameters, once per pass, to ranks that read them and do not have them. `updates` are computed first. */
export function sendParameters(
  shared: readonly SharedParameter[],
  rank: number,
  updates: readonly Node[],
): WorkDraft[] {
  // Two ranks may send each other parameters, so each sends its own before it waits for the other's.
  const [send, receive] = [draft('send parameters'), draft('receive parameters')];
  for (const update of updates) send.computes.add(update);
  for (const { leaf, owner, index, readers } of shared) {
    for (const reader of readers.keys()) {
      const tag = tagOf('parameter', index);
      if (rank === owner) {
        if (leaf.value === null) send.computes.add(leaf);
        send.sends.push({ node: leaf, peer: reader, tag });
      }
      if (rank === reader) receive.receives.push({ node: leaf, peer: owner, tag });
    }
  }
  return [send, receive];
}

/**
 * Sends the gradients of shared parameters to the ranks that own them, once per pass. `gradients` has the sums of this
 * rank, by leaf. Afterwards its entries for owned parameters are the sums over all ranks.
 */
export function returnGradients(
  shared: readonly SharedParameter[],
  rank: number,
  gradients: Map<Node, Node>,
): WorkDraft[] {
  const [send, add] = [draft('return gradients'), draft('add gradients')];
  for (const { leaf, owner, index, readers } of shared) {
    for (const [reader, gradient] of readers) {
      if (!gradient) continue;
      const tag = tagOf('parameterGradient', index);
      const own = gradients.get(leaf);
      if (rank === reader) {
        const node = own ?? noGrad(() => constantLike(leaf, 0));
        send.computes.add(node);
        send.sends.push({ node, peer: owner, tag });
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
  return [send, add];
}
