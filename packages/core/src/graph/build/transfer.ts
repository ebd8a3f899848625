import type { TransferParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import { isOp, none, type Node } from '../node.ts';

/** Moves the value to a page. Only pageIn reads the result. */
export function pageOut(x: Node, params: TransferParams['pageOut']): Node {
  return createNode('pageOut', params, [x]);
}

/** The contents that a source has for x when the run comes to this node. */
export function refresh(x: Node, params: TransferParams['refresh']): Node {
  return createNode('refresh', params, [x]);
}

/** The node to read if x may be paged out. A pageOut that is realized needs no pageIn, because a run loads its page. */
export function pageIn(x: Node): Node {
  return isOp(x, 'pageOut') && x.value === null ? createNode('pageIn', none, [x]) : x;
}
