import type { Unissued } from '../../graph/collective-order.ts';
import { newWalk } from '../../graph/create-node.ts';
import type { Node } from '../../graph/node.ts';
import { isTransferOp } from '../../graph/ops/ops.ts';
import { isTravelling } from '../../graph/program-order.ts';
import { isOneMessage } from './one-message.ts';
import { checkNotUpdated, isUpdatedFor, targetOf } from '../../graph/updated-leaves.ts';
import { formatShape } from '../../base/shape.ts';
import { TensorStateError } from '../../spec/errors.ts';

/** The unrealized part of the graph below some roots. Slots number leaves first, then computed nodes. */
export interface Subgraph {
  readonly leaves: readonly Node[];
  /** The nodes to compute, in program order. */
  readonly computed: readonly Node[];
  /** The nodes among those offered that are computed with the roots. */
  readonly taken: readonly Node[];
  /** Results of forward passes that are computed because the run issues their collectives. */
  readonly results: readonly Node[];
  /** The collectives among `computed` that had not been issued. */
  readonly issued: readonly Node[];
  /** Those among `issued` that nothing in the subgraph reads. */
  readonly unread: readonly Node[];
  /** Nodes that the order of the program asks for, and that need a value which is no longer there. */
  readonly unreadable: ReadonlyMap<Node, unknown>;
}

/** What a run may have to compute besides its roots. */
export interface CollectOptions {
  /** Nodes that are computed with the roots if they cost little. */
  readonly offered?: Iterable<Node>;
  /** The collectives that have not been issued, in the order of the program. */
  readonly unissued?: ReadonlyMap<Node, Unissued>;
  /** Whether the program reads a value. Default: no. */
  readonly isRead?: boolean;
  /** The run also issues a collective with this id, which is not among its roots. Default: none. */
  readonly issues?: number;
}

/** The largest number of additional ops for which an offered value is computed with the roots. */
const MAX_OWN_OPS = 64;

/**
 * Collects what the roots need, and the collectives that come before those in the order of the program
 * (`graph/collective-order.ts`). Of `offered` it takes the nodes that the roots need anyway, or that cost a few ops
 * besides. A run with updates (a step) issues all collectives, and it takes nodes that only read leaves. Throws
 * TensorStateError if a root needs a value that is no longer there.
 */
export function collect(roots: readonly Node[], options: CollectOptions = {}): Subgraph {
  const unreadable = new Map<Node, unknown>();
  for (;;) {
    const found = collectReadable(roots, options, unreadable);
    if ('computed' in found) return found;
    unreadable.set(found.node, found.error);
  }
}

/** A node that cannot be computed, and why. */
interface Unreadable {
  readonly node: Node;
  readonly error: unknown;
}

/** Returns a node instead that cannot be computed for the sake of the order, if there is one that is not known yet. */
function collectReadable(
  roots: readonly Node[],
  {
    offered = [],
    unissued = new Map<Node, Unissued>(),
    issues = 0,
    isRead = false,
  }: CollectOptions,
  unreadable: ReadonlyMap<Node, unknown>,
): Subgraph | Unreadable {
  const walk = newWalk();
  const computed: Node[] = [];
  const aliases: Node[] = [];
  const visit = (node: Node): void => {
    if (node.mark === walk) return;
    node.mark = walk;
    if (node.value === null) computed.push(node);
    else if (node.op === 'assign') aliases.push(node);
  };
  let visited = 0;
  const visitInputs = (): void => {
    for (; visited < computed.length; visited++) {
      const node = computed[visited]!;
      // A loop by index makes no iterators, of which a run would make some thousands.
      for (let index = 0; index < node.inputs.length; index++) {
        const input = node.inputs[index]!;
        visit(input);
        if (input.value !== null) checkReadable(node, input);
      }
      if (node.rowCount !== null) visit(node.rowCount.count);
    }
  };
  roots.forEach(visit);
  visitInputs();
  const updates = roots.filter(({ op }) => op === 'assign');
  const isStep = updates.length > 0;
  const isStale = readsUpdated(updates);
  const visitReadable = (node: Node): Unreadable | null => {
    try {
      visit(node);
      visitInputs();
      return null;
    } catch (error) {
      return { node, error };
    }
  };
  const results = new Set<Node>();
  const queue = [...unissued.keys()].filter((node) => !unreadable.has(node));
  queue.sort((a, b) => a.id - b.id);
  const unread: Node[] = [];
  let issued = 0;
  for (;;) {
    const last: number = queue.findLastIndex(
      ({ id, mark }) => isStep || mark === walk || id < issues,
    );
    const end = endOfBucket(queue, last) + 1;
    if (end <= issued) break;
    for (const node of queue.slice(issued, end)) {
      const isForced = node.mark !== walk;
      const fault = visitReadable(node);
      if (fault !== null) return fault;
      if (isForced) unread.push(node);
      const pass = unissued.get(node)?.pass ?? null;
      // On a rank that reads no result of a pass, or not all results, they are computed while the pass has its
      // collectives. After an update, nothing can be read that was computed from the old parameters.
      if (pass === null || (pass.isGradEnabled && !isForced) || isStale(node)) continue;
      for (const output of pass.outputs) {
        if (output.value !== null || unreadable.has(output)) continue;
        const ofOutput = visitReadable(output);
        if (ofOutput !== null) return ofOutput;
        results.add(output);
      }
    }
    issued = end;
  }
  // Of what a later backward pass makes again, the source is computed here, where its collectives are issued.
  for (const source of issued > 0 ? sourcesOf(computed) : []) {
    // A backward pass of this run reads a marked one, and no other one comes.
    if (source.value !== null || isStale(source) || (source.mark === walk && !isRead)) continue;
    visit(source);
    results.add(source);
    visitInputs();
  }
  const taken: Node[] = [];
  const asked = new Set(roots);
  for (const node of offered) {
    if (asked.has(node) || results.has(node)) continue;
    if (node.value !== null || !isNear(node, walk, isStep)) continue;
    visit(node);
    visitInputs();
    taken.push(node);
  }
  computed.sort((a, b) => a.id - b.id);
  const leaves = numberLeaves(roots, computed);
  let slot = leaves.length;
  for (const node of computed) node.slot = slot++;
  for (const alias of aliases) alias.slot = targetOf(alias).slot;
  return {
    leaves,
    computed,
    taken,
    results: [...results].filter((node) => !asked.has(node)),
    issued: queue.slice(0, issued),
    unread,
    unreadable,
  };
}

/** What later backward passes make values again from. */
function sourcesOf(computed: readonly Node[]): readonly Node[] {
  const sources = computed.map((node) => node.region?.sourceOf(node) ?? null);
  return sources.filter((source) => source !== null);
}

/** Returns a function that says whether a node reads a tensor that one of the `updates` changes after it. */
function readsUpdated(updates: readonly Node[]): (node: Node) => boolean {
  const updatedAt = new Map<Node, number>();
  for (const update of updates) {
    const target = targetOf(update);
    updatedAt.set(target, Math.max(updatedAt.get(target) ?? 0, update.id));
  }
  const known = new Map<Node, boolean>();
  return (node) => {
    if (updates.length === 0) return false;
    const stack = [node];
    for (let next = stack.at(-1); next !== undefined; next = stack.at(-1)) {
      const open = next.inputs.filter((input) => input.value === null && !known.has(input));
      if (open.length > 0 && !known.has(next)) {
        stack.push(...open);
        continue;
      }
      stack.pop();
      const { id, inputs } = next;
      const reads = (input: Node): boolean => {
        const leaf = input.op === 'assign' ? targetOf(input) : input;
        return known.get(input) === true || id < (updatedAt.get(leaf) ?? 0);
      };
      known.set(next, inputs.some(reads));
    }
    return known.get(node) === true;
  };
}

/** The index of the last all-reduce that travels in one message with the one at `index`. */
function endOfBucket(queue: readonly Node[], index: number): number {
  let end = index;
  for (;;) {
    const [last, next] = [queue[end], queue[end + 1]];
    if (last === undefined || next === undefined || !isOneMessage(last, next)) return end;
    end++;
  }
}

/** Whether a node can be computed at little cost together with the nodes that a walk has marked. */
function isNear(node: Node, walk: number, isStep: boolean): boolean {
  const own = new Set([node]);
  let touches = false;
  for (const each of own) {
    if (each.mark === walk) {
      touches = true;
      continue;
    }
    if (own.size > MAX_OWN_OPS || each.op === 'assign' || isTransferOp(each.op)) return false;
    if (isTravelling(each)) return false;
    for (const input of each.inputs) {
      if (input.value === null) own.add(input);
      else if (!isReadable(each, input)) return false;
    }
  }
  return touches || isStep;
}

/**
 * Numbers leaves in the order of their first use, and not by age. A leaf that one step creates and the next one keeps,
 * such as an optimizer state, then has the same number in both steps.
 */
function numberLeaves(roots: readonly Node[], computed: readonly Node[]): Node[] {
  const walk = newWalk();
  const leaves: Node[] = [];
  const number = (node: Node): void => {
    if (node.value === null) return;
    const leaf = node.op === 'assign' ? targetOf(node) : node;
    if (leaf.mark === walk) return;
    leaf.mark = walk;
    leaf.slot = leaves.push(leaf) - 1;
  };
  for (const node of computed) {
    node.inputs.forEach(number);
    if (node.rowCount !== null) number(node.rowCount.count);
  }
  roots.forEach(number);
  return leaves;
}

function isReadable(reader: Node, input: Node): boolean {
  const kind = input.value?.kind;
  return kind !== 'failed' && kind !== 'freed' && !isUpdatedFor(reader, input);
}

function checkReadable(reader: Node, input: Node): void {
  if (input.value?.kind === 'failed') throw input.value.error;
  if (input.value?.kind === 'freed') {
    throw new TensorStateError(
      {
        asked: `${reader.op} of a tensor of shape ${formatShape(input.shape)}`,
        found: `its memory was freed by ${input.value.by}`,
        todo: 'Read it (await tensor.data()) before it is freed',
      },
      { op: reader.op, shape: input.shape },
    );
  }
  checkNotUpdated(reader, input);
}
