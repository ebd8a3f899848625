import type { TransferParams } from '../../spec/op.ts';
import { createNode } from '../create-node.ts';
import { isOp, none, type Node } from '../node.ts';

/** The value in a page. Only pageIn reads it. */
export function pageOut(x: Node, params: TransferParams['pageOut']): Node {
  return createNode('pageOut', params, [x]);
}

/** What a source has for x by now. */
export function refresh(x: Node, params: TransferParams['refresh']): Node {
  return createNode('refresh', params, [x]);
}

/** What a run reads of a value that may be paged out; once it is realized, a run finds it itself. */
export function pageIn(x: Node): Node {
  return isOp(x, 'pageOut') && x.value === null ? createNode('pageIn', none, [x]) : x;
}
