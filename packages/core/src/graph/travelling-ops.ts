import type { CollectiveOp } from '../spec/op.ts';

/** Collectives in which data travels between ranks. */
export const travellingOps: readonly CollectiveOp[] = [
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'sendRecv',
];
