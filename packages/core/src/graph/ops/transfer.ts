import type { TransferOp, TransferParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import { same } from '../infer-checks.ts';
import { isOp, none, type Node } from '../node.ts';
import { noGradient, type SimpleEntries, transfer } from '../op-entry.ts';

/** Moves between the device and a store of pages. */
export const transferOps: SimpleEntries<TransferOp> = {
  pageOut: { ...transfer, memory: 'none', infer: same, gradient: (_, gy) => [gy] },
  pageIn: { ...transfer, infer: same, gradient: (_, gy) => [gy] },
  refresh: {
    ...transfer,
    worksInPlace: true,
    linearIn: [],
    infer: same,
    gradient: noGradient,
  },
};

/** Moves the value to a page. Only pageIn reads the result. */
export function pageOut(x: Node, params: TransferParams['pageOut']): Node {
  return createNode(transferOps.pageOut, 'pageOut', params, [x]);
}

/** The contents that a source has for x when the run comes to this node. */
export function refresh(x: Node, params: TransferParams['refresh']): Node {
  return createNode(transferOps.refresh, 'refresh', params, [x]);
}

/** The node to read if x may be paged out. A pageOut that is realized needs no pageIn, because a run loads its page. */
export function pageIn(x: Node): Node {
  return isOp(x, 'pageOut') && x.value === null
    ? createNode(transferOps.pageIn, 'pageIn', none, [x])
    : x;
}
