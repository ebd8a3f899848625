import { type CollectivePlan, dtypes, elementCount, isOp, type Node } from '@shardwise/core/extend';

/** What the rank that computes the loss of a microbatch communicates for it with ranks of another axis. */
export type LossMessage = Pick<CollectivePlan, 'operation' | 'axis' | 'bytes'>;

/** Those whose bytes follow from shapes. */
const operations = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
] as const;

/** The collectives of a loss in its forward pass, as of logits in parts: of what was built behind `start`, a node's id. */
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
