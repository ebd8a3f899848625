import { RecomputeRegion } from '../autograd/recompute.ts';
import type { Node } from '../graph/node.ts';
import type { Op } from '../spec/op.ts';
import { Tensor } from '../tensor/tensor.ts';

/** Whether forward's value of a node is kept for backward. */
export type CheckpointPolicy = (node: {
  readonly op: Op;
  readonly shape: readonly number[];
}) => 'keep' | 'recompute';

export interface CheckpointOptions {
  /** Default: everything is made again but the results (full checkpointing). */
  readonly policy?: CheckpointPolicy;
}

/**
 * Activation checkpointing: what `forward` computes on the way to its results is made again in
 * backward and takes no memory until then (torch.utils.checkpoint). Results and gradients have the
 * same bits; dropout draws the same numbers.
 */
export function checkpoint<T>(forward: () => T, options: CheckpointOptions = {}): T {
  const { policy } = options;
  const region = new RecomputeRegion({ keeps: (node) => policy?.(node) === 'keep' });
  const result = region.run(forward);
  for (const node of nodesIn(result)) region.keep(node);
  return result;
}

const products: ReadonlySet<Op> = new Set<Op>(['matmul', 'conv2d']);

/** Keeps what is dear to make again, as products and what other ranks sent, and makes the rest again. */
export const keepProducts: CheckpointPolicy = ({ op }) =>
  products.has(op) || collectives.has(op) ? 'keep' : 'recompute';

const collectives: ReadonlySet<Op> = new Set<Op>([
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'sendRecv',
]);

/** Of tensors, and of those in lists and plain objects. */
function nodesIn(value: unknown): readonly Node[] {
  if (value instanceof Tensor) return [value.node];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(nodesIn);
}
