import { rankState } from '../../ambient.ts';
import type { ForwardPass, Unissued } from '../../graph/collective-order.ts';
import type { Node } from '../../graph/node.ts';
import { targetOf } from '../../graph/updated-leaves.ts';
import type { Subgraph } from '../collect/collect.ts';

/** What a run computes, and what is known of the collectives that it issues. */
export interface IssuingRun {
  readonly subgraph: Subgraph;
  /** The nodes whose values are kept in any case. */
  readonly outputs: ReadonlySet<Node>;
  readonly unissued: ReadonlyMap<Node, Unissued>;
  /** Whether the program reads a value. It may then take further backward passes of a loss that has had one. */
  readonly isRead: boolean;
}

/** What later runs may do with a node that the run computes. */
const State = {
  /** They can compute it again without a collective, or its value is kept. */
  free: 0,
  /** They would need a collective again. */
  lost: 1,
  /** They cannot read it, because the run changes a tensor that it reads. */
  stale: 2,
} as const;

/**
 * The nodes besides `outputs` whose values a run keeps, so that no later run needs the collectives again that this run
 * issues: each is issued once.
 *
 * - Results of collectives are kept as activations are, as long as a backward pass that has not been built may come to
 *   them, and in a run that reads a value. Parameters that were gathered for a forward pass are gathered again in the
 *   backward pass. They are not kept, but what was computed from them is.
 * - A pass without gradients keeps nothing, because all its results are computed in the run.
 * - What a function of the library has gathered for one expression is not kept. The value of the expression is.
 * - An average of gradients that a part of a parameter refers to is kept until an update uses it up.
 * - Nothing is kept that was computed from tensors which the run updates, because it cannot be read after that.
 */
export function keptResults({ subgraph, outputs, unissued, isRead }: IssuingRun): readonly Node[] {
  const { computed, leaves, issued } = subgraph;
  const kept: Node[] = [];
  const states = new Uint8Array(leaves.length + computed.length);
  /** The passes of lost nodes that belong to one. */
  const passes = new Map<Node, ForwardPass>();
  const updatedAt = updatesOf(subgraph);
  const unread = new Set(subgraph.unread);
  let opened: ((node: Node) => boolean) | null = null;
  /** Whether a backward pass that has not been built may come to a node. */
  const isOpen = (node: Node): boolean =>
    requiresGrad(node) &&
    (opened ??= reachedFrom(
      subgraph,
      ({ wasWalked, openUses }) => isRead || !wasWalked || openUses > 0,
      requiresGrad,
    ))(node);
  let used: ((node: Node) => boolean) | null = null;
  /** Whether an update of the run is computed from a node. */
  const isUsedUp = (node: Node): boolean =>
    (used ??= reachedFrom(
      subgraph,
      ({ op }) => op === 'assign',
      () => true,
    ))(node);
  const keep = (node: Node): void => {
    states[node.slot] = State.free;
    if (!outputs.has(node)) kept.push(node);
  };
  const lose = (node: Node, pass: ForwardPass | null): void => {
    states[node.slot] = State.lost;
    if (pass !== null) passes.set(node, pass);
  };
  const remade = new Set<Node>();
  /** Keeps what a backward pass from a node reads. What it makes again is made of inputs in turn. */
  const keepInputs = ({ inputs }: Node): void => {
    for (const input of inputs) {
      if (states[input.slot] !== State.lost || remade.has(input)) continue;
      if (!isRemade(input)) keep(input);
      else if ((input.region?.sourceOf(input) ?? null) === null) {
        remade.add(input);
        keepInputs(input);
      }
    }
  };
  // Both lists are in program order.
  let issuedSoFar = 0;
  // Loops by index make no iterators, of which a run would make some thousands.
  for (let at = 0; at < computed.length; at++) {
    const node = computed[at]!;
    const isIssued = node === issued[issuedSoFar];
    if (isIssued) issuedSoFar++;
    let isStale = false;
    let lostInput: Node | null = null;
    for (let index = 0; index < node.inputs.length; index++) {
      const input = node.inputs[index]!;
      const state = states[input.slot];
      const leaf = input.op === 'assign' ? targetOf(input).slot : input.slot;
      if (state === State.stale || node.id < (updatedAt[leaf] ?? 0)) isStale = true;
      if (state === State.lost) lostInput ??= input;
    }
    if (isStale && node.op !== 'assign') {
      states[node.slot] = State.stale;
      continue;
    }
    if (lostInput === null && !isIssued) continue;
    if (outputs.has(node)) {
      if (isOpen(node)) keepInputs(node);
      continue;
    }
    if (isIssued) {
      const pass = unissued.get(node)?.pass ?? null;
      const isForOthers =
        pass === null
          ? node.isOfLibrary && (!rankState.keptAverages.has(node) || isUsedUp(node))
          : !(pass.isGradEnabled && isOpen(node));
      if (isRemade(node) || (isForOthers && !unread.has(node))) lose(node, pass);
      else keep(node);
      if (isRemade(node) && isOpen(node)) keepInputs(node);
      continue;
    }
    const mayGoBack = isOpen(node);
    if (mayGoBack) {
      keepInputs(node);
      const still = node.inputs.find(({ slot }) => states[slot] === State.lost);
      if (still === undefined) continue;
      lostInput = still;
    }
    const pass = (lostInput && passes.get(lostInput)) ?? null;
    lose(node, pass);
    const isInside = node.isOfLibrary || (pass !== null && node.id <= pass.lastId);
    if (mayGoBack || !(isInside || node.requiresGrad)) {
      if (!isRemade(node)) keep(node);
    }
  }
  return kept;
}

/**
 * Returns a function that says whether a computed node is a start, or one of the nodes that starts are computed from by
 * way of nodes that `passes`.
 */
function reachedFrom(
  { computed, leaves }: Subgraph,
  isStart: (node: Node) => boolean,
  passes: (node: Node) => boolean,
): (node: Node) => boolean {
  const first = leaves.length;
  const reached = new Uint8Array(computed.length);
  for (let index = computed.length - 1; index >= 0; index--) {
    const node = computed[index]!;
    if (!passes(node) || (reached[index] !== 1 && !isStart(node))) continue;
    reached[index] = 1;
    for (let at = 0; at < node.inputs.length; at++) {
      const { slot } = node.inputs[at]!;
      if (slot >= first) reached[slot - first] = 1;
    }
  }
  return ({ slot }) => reached[slot - first] === 1;
}

/** For each leaf, the largest id of the updates of it that the run makes. Empty if it makes none. */
function updatesOf({ computed, leaves }: Subgraph): Float64Array {
  const updates = computed.filter(({ op }) => op === 'assign');
  const updatedAt = new Float64Array(updates.length === 0 ? 0 : leaves.length);
  for (const update of updates) {
    const { slot } = targetOf(update);
    updatedAt[slot] = Math.max(updatedAt[slot] ?? 0, update.id);
  }
  return updatedAt;
}

function requiresGrad(node: Node): boolean {
  return node.requiresGrad;
}

/** Whether the backward pass makes a node again, instead of reading its value. */
function isRemade(node: Node): boolean {
  return node.region?.remakes(node) ?? false;
}
