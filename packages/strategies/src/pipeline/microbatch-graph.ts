import { LayoutError, type Node } from '@shardwise/core/extend';

/** What one stage makes and a later one reads. */
export interface Crossing {
  readonly node: Node;
  readonly from: number;
  readonly to: number;
  /** Whether a gradient comes back. */
  readonly gradient: boolean;
}

export interface MicrobatchRoots {
  /** What the forward pass is given: also constants are a batch. */
  readonly inputs: ReadonlySet<Node>;
  /** What the forward pass returns. */
  readonly outputs: readonly Node[];
  /** The output that is differentiated; null in evaluation. */
  readonly loss: Node | null;
  /** Updates of buffers. */
  readonly updates: readonly Node[];
  /** What later microbatches read of this one, and this one of earlier ones. */
  readonly carried: readonly Node[];
  readonly earlier: ReadonlySet<Node>;
}

/**
 * The forward pass of one microbatch, cut into stages. A value belongs to the stage in whose time it was made. What
 * follows from the batch alone, as masks, or from parameters alone, belongs to none: each stage computes what it reads
 * of it.
 */
export class MicrobatchGraph {
  readonly crossings: readonly Crossing[];
  /** Parameters and buffers that stages read, and whether a gradient flows from there to expressions of them. */
  readonly reads: ReadonlyMap<Node, ReadonlyMap<number, boolean>>;
  readonly #starts: readonly number[];
  readonly #kinds: ReadonlyMap<Node, Kind>;

  /**
   * `starts` is what StageMarks recorded, `isState` says of leaves whether they are parameters or buffers. Throws
   * LayoutError for values that cannot cross.
   */
  constructor(
    { inputs, outputs, loss, updates, carried, earlier }: MicrobatchRoots,
    starts: readonly number[],
    isState: (leaf: Node) => boolean,
  ) {
    this.#starts = starts;
    const isLeaf = leafOf(updates, earlier);
    const nodes = nodesBelow([...outputs, ...updates, ...carried], isLeaf);
    const kinds = kindsOf(nodes, inputs, isLeaf, (leaf) => isState(leaf) || earlier.has(leaf));
    this.#kinds = kinds;
    const alive = gradientPath(loss, nodes);
    const crossings = new Map<string, Crossing>();
    const reads = new Map<Node, Map<number, boolean>>();
    for (const node of nodes) {
      if (kinds.get(node) !== 'staged') continue;
      const to = this.#stageAt(node);
      const flows = alive.has(node);
      for (const input of node.inputs) {
        const kind = kinds.get(input);
        const gradient = flows && alive.has(input);
        if (kind === 'state') {
          for (const leaf of statesBelow(input, isLeaf, kinds)) {
            const stages = reads.get(leaf) ?? new Map<number, boolean>();
            stages.set(to, gradient || stages.get(to) === true);
            reads.set(leaf, stages);
          }
          continue;
        }
        const from = this.#stageAt(input);
        if (kind !== 'staged' || from === to) continue;
        requireSendable(input, from, to);
        const key = `${input.id} ${to}`;
        const known = crossings.get(key);
        crossings.set(key, {
          node: input,
          from,
          to,
          gradient: gradient || known?.gradient === true,
        });
      }
    }
    this.crossings = [...crossings.values()].toSorted(
      (a, b) => a.node.id - b.node.id || a.to - b.to,
    );
    this.reads = reads;
  }

  /** The stage that makes a value of the forward pass; null for what each stage computes for itself, and for leaves. */
  stageOf(node: Node): number | null {
    return this.#kinds.get(node) === 'staged' ? this.#stageAt(node) : null;
  }

  #stageAt({ id }: Node): number {
    const later = this.#starts.findIndex((start) => id <= start);
    return later < 0 ? this.#starts.length : later;
  }
}

/** Whether a node has its contents from elsewhere, where these updates are the pass's own. */
export function leafOf(
  updates: readonly Node[],
  earlier: ReadonlySet<Node> = new Set(),
): (node: Node) => boolean {
  const own = new Set(updates);
  return (node) =>
    node.op === 'input' ||
    node.value !== null ||
    earlier.has(node) ||
    (node.op === 'assign' && !own.has(node));
}

/**
 * What follows from constants, from the batch, from parameters and buffers, and from a batch with these. Only what follows
 * from both belongs to a stage; the rest is computed wherever it is read.
 */
type Kind = 'constant' | 'batch' | 'state' | 'staged';

function kindsOf(
  nodes: readonly Node[],
  inputs: ReadonlySet<Node>,
  isLeaf: (node: Node) => boolean,
  isState: (leaf: Node) => boolean,
): ReadonlyMap<Node, Kind> {
  const kinds = new Map<Node, Kind>();
  for (const node of nodes) {
    if (inputs.has(node)) {
      kinds.set(node, 'batch');
      continue;
    }
    if (isLeaf(node)) {
      kinds.set(node, isState(node) ? 'state' : 'batch');
      continue;
    }
    const own = new Set(node.inputs.map((input) => kinds.get(input)));
    const isMixed = own.has('state') && own.has('batch');
    if (own.has('staged') || isMixed || node.op === 'assign') kinds.set(node, 'staged');
    else kinds.set(node, own.has('state') ? 'state' : own.has('batch') ? 'batch' : 'constant');
  }
  return kinds;
}

/** The parameters and buffers that an expression of them reads. */
function statesBelow(
  node: Node,
  isLeaf: (node: Node) => boolean,
  kinds: ReadonlyMap<Node, Kind>,
): ReadonlySet<Node> {
  const seen = new Set([node]);
  for (const each of seen) {
    if (isLeaf(each)) continue;
    for (const input of each.inputs) if (kinds.get(input) === 'state') seen.add(input);
  }
  return new Set([...seen].filter(isLeaf));
}

/** In the order of the program. */
function nodesBelow(roots: readonly Node[], isLeaf: (node: Node) => boolean): Node[] {
  const seen = new Set(roots);
  for (const node of seen) if (!isLeaf(node)) for (const input of node.inputs) seen.add(input);
  return [...seen].toSorted((a, b) => a.id - b.id);
}

/** Values between the loss and what trains. */
function gradientPath(loss: Node | null, nodes: readonly Node[]): ReadonlySet<Node> {
  const alive = new Set<Node>();
  if (loss?.requiresGrad === true) alive.add(loss);
  for (const node of nodes.toReversed()) {
    if (!alive.has(node)) continue;
    for (const input of node.inputs) if (input.requiresGrad) alive.add(input);
  }
  return alive;
}

function requireSendable(node: Node, from: number, to: number): void {
  const found =
    node.op === 'assign'
      ? 'a buffer that the earlier stage updates and the later one reads'
      : node.rowCount === null
        ? null
        : 'a value with as many rows as a run computes, which nobody can receive';
  if (found === null) return;
  throw new LayoutError(
    {
      asked: `a pipeline that cuts between stage ${from} and stage ${to}`,
      found,
      todo: 'Cut where both are in one stage',
    },
    { from, to, op: node.op },
  );
}
