import { currentScope, rankState, within } from '../ambient.ts';
import type { Node } from './node.ts';
import type { CollectiveOrder, ForwardPass } from './collective-order.ts';

/** Whether a node sends data to other ranks. */
export function communicates(node: Node): boolean {
  return isTravelling(node) && 'size' in node.params && node.params.size > 1;
}

/** Whether a node is of an op that sends data, unless its axis has one rank. Other collectives only change a type. */
export function isTravelling({ op, params }: Node): boolean {
  return 'size' in params && op !== 'reinterpret' && op !== 'localChunk';
}

/** Gives a collective its place in the order of the program, which is behind all that were made before. */
export function noteCollective(node: Node): void {
  const { collectiveOrder } = currentScope();
  if (!communicates(node)) return;
  rankState.hasCollectives = true;
  if (collectiveOrder === 'apart') return;
  if (collectiveOrder === 'reductionIfUsed') rankState.reductionsIfUsed.add(node);
  if (collectiveOrder === 'program') issueLater(node);
}

/** Gives a node, and all that it was made of, a place in the order of the program, if they had none yet. */
export function noteUse(node: Node): void {
  node.isUnused = false;
  for (const input of node.inputs) if (input.isUnused) noteUse(input);
  if (communicates(node) && currentScope().collectiveOrder !== 'apart') issueLater(node);
}

/** The order in which a gradient rule makes collectives: only gradients that something uses are sent. */
export function orderInRules(): CollectiveOrder {
  const { collectiveOrder } = currentScope();
  return collectiveOrder === 'program' && rankState.hasCollectives ? 'ifUsed' : collectiveOrder;
}

function issueLater(node: Node): void {
  const { reductionsIfUsed, unissued } = rankState;
  if (reductionsIfUsed.size > 0) {
    // On another rank, the ones that are made later may be issued before the program comes to a use of these.
    const earlier = [...reductionsIfUsed];
    reductionsIfUsed.clear();
    for (const reduction of earlier) if (reduction.isUnused) noteUse(reduction);
  }
  if (unissued.has(node)) return;
  if (unissued.size === 0) rankState.session?.issueSoon();
  unissued.set(node, { pass: currentScope().forwardPass });
}

/**
 * Has the run that issues a reduction of gradients keep the average, unless an update of that run uses it up. Nothing
 * else keeps it.
 */
export function keepAverage(node: Node): void {
  rankState.keptAverages.add(node);
}

/** Forgets a reduction that a later one has replaced. If it has no place in the order of the program, it never runs. */
export function dropReduction(node: Node): void {
  if (!node.isUnused) return;
  rankState.reductionsIfUsed.delete(node);
  node.inputs.forEach(dropReduction);
}

/**
 * Notes that a collective was issued. If its result was not kept, later reads of the node throw an error, because the
 * other ranks do not issue it again.
 */
export function markIssued(node: Node): void {
  rankState.unissued.delete(node);
  node.value ??= { kind: 'freed', by: 'the run that issued the collective' };
}

/** Notes that a collective will not be issued, because a value that it needs could not be computed. */
export function markFailed(node: Node, error: unknown): void {
  rankState.unissued.delete(node);
  node.value ??= { kind: 'failed', error };
}

/** Forgets all collectives, and what ranks compare by them, because another rank begins in this thread. */
export function forgetCollectives(): void {
  rankState.unissued.clear();
  rankState.reductionsIfUsed.clear();
  rankState.stepSettings.clear();
}

/** Gives the collectives that `body` makes a place in the order of the program as `CollectiveOrder` says. */
export function withCollectiveOrder<T>(collectiveOrder: CollectiveOrder, body: () => T): T {
  return within('a function of the library', { collectiveOrder }, body);
}

/**
 * Builds a forward pass. `outputsOf` returns the nodes of its results. If its collectives are issued before something
 * asks for a result, as on a rank that reads no result, the results are computed with them.
 */
export function inForwardPass<T>(body: () => T, outputsOf: (result: T) => readonly Node[]): T {
  const { forwardPass, isGradEnabled, collectiveOrder } = currentScope();
  if (forwardPass !== null || collectiveOrder !== 'program') return body();
  const pass: ForwardPass = { isGradEnabled, lastId: Infinity, outputs: [] };
  try {
    const result = within('a forward pass', { forwardPass: pass }, body);
    pass.outputs = outputsOf(result);
    return result;
  } finally {
    pass.lastId = rankState.nextNodeId - 1;
  }
}
