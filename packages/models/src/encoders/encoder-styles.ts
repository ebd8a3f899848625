import { colwiseParallel, rowwiseParallel, type StylePlan } from '@shardwise/strategies';

/**
 * Megatron's styles for the layers of an encoder, which need two all-reduces a layer and pass: each rank has some of the
 * heads, and some channels inside the perceptron. `heads` is the number of heads. The embeddings and the head of a masked
 * language model, which share a weight whose padding does not train, are whole on each rank.
 */
export function encoderStyles(
  layer: string,
  { attention, heads }: { readonly attention: string; readonly heads: number },
): StylePlan {
  const projection = colwiseParallel({ heads: [heads] });
  return {
    [`${layer}.attention.${attention}.query`]: projection,
    [`${layer}.attention.${attention}.key`]: projection,
    [`${layer}.attention.${attention}.value`]: projection,
    [`${layer}.attention.output.dense`]: rowwiseParallel(),
    [`${layer}.intermediate.dense`]: colwiseParallel(),
    [`${layer}.output.dense`]: rowwiseParallel(),
  };
}
