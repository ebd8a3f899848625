import { type CollectivePlan, dtypes, elementCount, isOp, type Node } from '@shardwise/core/extend';

/** A collective by which the rank that computes the loss of a microbatch communicates with ranks of another axis. */
export type LossMessage = Pick<CollectivePlan, 'operation' | 'axis' | 'bytes'>;

/** The collectives whose bytes follow from shapes. */
const operations = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
] as const;

/**
 * Returns the collectives in the forward pass of a loss, such as those of a loss of logits that ranks hold in parts.
 * Only nodes with ids above `start` belong to the loss.
 */
export function lossMessages(loss: Node, start: number): readonly LossMessage[] {
  const found: LossMessage[] = [];
  const seen = new Set([loss]);
  for (const node of seen) {
    if (node.id <= start) continue;
    for (const operation of operations) {
      if (!isOp(node, operation)) continue;
      const bytes = Math.max(...[node, ...node.inputs].map(bytesOf));
      found.push({ operation, axis: node.params.axis, bytes });
    }
    for (const input of node.inputs) seen.add(input);
  }
  return found;
}

function bytesOf({ shape, dtype }: Node): number {
  return elementCount(shape) * dtypes[dtype].bytes;
}
