import type { CollectiveOp } from '../spec/op.ts';

/** Collectives in which data travels between ranks. */
export const travellingOps = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'sendRecv',
] as const satisfies readonly CollectiveOp[];
