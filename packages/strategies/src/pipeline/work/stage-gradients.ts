import {
  backwardTo,
  constantLike,
  inputNode,
  type Node,
  noGrad,
  partWhere,
  type Seeded,
} from '@shardwise/core/extend';
import type { NumberedCrossing } from './forward-drafts.ts';
import type { Microbatch, PipelinePlace } from '../microbatches/microbatch.ts';

/** The backward pass of one stage for one microbatch, which has been built and not computed. */
export interface StageGradients {
  /** The gradients of the values that the stage takes from earlier stages, in the order of their messages. */
  readonly inputs: ReadonlyMap<NumberedCrossing, Node>;
  /**
   * The gradients of parameters and of their stand-ins, by the leaf that the forward pass read. They are zeros if the
   * microbatch has no weight.
   */
  readonly leaves: ReadonlyMap<Node, Node>;
  /** The gradients that other ranks will send for values that this stage has made. */
  readonly received: ReadonlyMap<NumberedCrossing, Node>;
}

/**
 * Builds the backward passes of a rank's stages for one microbatch. A gradient that another rank sends is a leaf
 * without contents until it is received. `lossGradient` is the gradient of the loss.
 */
export function stageGradients(
  { graph, loss, counts }: Microbatch,
  crossings: readonly NumberedCrossing[],
  lossGradient: Node,
  { rank, rankOfStage }: PipelinePlace,
): ReadonlyMap<number, StageGradients> {
  const found = new Map<number, StageGradients>();
  const lossStage = loss === null ? null : graph.stageOf(loss);
  for (const stage of rankOfStage.keys().toArray().toReversed()) {
    if (rankOfStage[stage] !== rank) continue;
    const outputs: Seeded[] = [];
    if (loss !== null && lossStage === stage) {
      outputs.push({ output: loss, gradient: lossGradient });
    }
    const received = new Map<NumberedCrossing, Node>();
    for (const crossing of crossings) {
      if (crossing.from !== stage || !crossing.gradient) continue;
      const local = found.get(crossing.to)?.inputs.get(crossing);
      const { node } = crossing;
      const gradient = local ?? leafWithoutContents(node);
      if (local === undefined) received.set(crossing, gradient);
      outputs.push({ output: node, gradient });
    }
    const isOfEarlierStage = (node: Node): boolean => (graph.stageOf(node) ?? stage) < stage;
    const own = backwardTo(outputs, isOfEarlierStage);
    const inputs = new Map<NumberedCrossing, Node>();
    for (const crossing of crossings) {
      if (crossing.to !== stage || !crossing.gradient) continue;
      const zeros = (): Node => noGrad(() => constantLike(crossing.node, 0));
      inputs.set(crossing, own.get(crossing.node) ?? zeros());
    }
    const leaves = new Map<Node, Node>();
    for (const [node, gradient] of own) {
      if (!isOfEarlierStage(node)) leaves.set(node, counted(gradient, counts));
    }
    found.set(stage, { inputs, leaves, received });
  }
  return found;
}

/**
 * Returns the gradient of a parameter that a microbatch adds. Without a weight its loss may be 0 / 0, or its rows may be
 * NaN, so that all gradients are NaN: they are left out here, where they would enter a sum.
 */
function counted(gradient: Node, counts: Node | null): Node {
  return counts === null ? gradient : noGrad(() => partWhere(counts, gradient));
}

/** Makes a leaf with the shape, dtype and axis types of a node. Its contents will be received. */
export function leafWithoutContents({ shape, dtype, axisTypes }: Node): Node {
  const leaf = inputNode(shape, dtype, null);
  leaf.axisTypes = axisTypes;
  return leaf;
}
