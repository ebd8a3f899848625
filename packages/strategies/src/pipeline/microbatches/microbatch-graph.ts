import { LayoutError, type Node } from '@shardwise/core/extend';

/** A value that one stage makes and a later one reads. */
export interface Crossing {
  readonly node: Node;
  readonly from: number;
  readonly to: number;
  /** Whether a gradient travels back. */
  readonly gradient: boolean;
}

export interface MicrobatchRoots {
  /** The tensors that the forward pass is given. They count as batch even if they are constants. */
  readonly inputs: ReadonlySet<Node>;
  /** The tensors that the forward pass returns. */
  readonly outputs: readonly Node[];
  /** The output that is differentiated; null in evaluation. */
  readonly loss: Node | null;
  /** The updates of buffers. */
  readonly updates: readonly Node[];
  /** The values of this microbatch that later ones read. */
  readonly carried: readonly Node[];
  readonly earlier: ReadonlySet<Node>;
}

/**
 * The forward pass of one microbatch, cut into stages. A value belongs to the stage during which it was made. A value
 * that follows from the batch alone, such as a mask, or from parameters alone belongs to no stage: each stage computes
 * those that it reads by itself.
 */
export class MicrobatchGraph {
  readonly crossings: readonly Crossing[];
  /**
   * The parameters and buffers that stages read. For each of them, the stages that read it, and whether it gets a
   * gradient there.
   */
  readonly reads: ReadonlyMap<Node, ReadonlyMap<number, boolean>>;
  readonly #starts: readonly number[];
  readonly #kinds: ReadonlyMap<Node, Kind>;

  /**
   * `starts` is what StageMarks recorded. `isState` returns whether a leaf is a parameter or a buffer. Throws
   * LayoutError for values that cannot be sent to another stage.
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

  /** Returns the stage that makes a value. Null for leaves, and for values that each stage computes by itself. */
  stageOf(node: Node): number | null {
    return this.#kinds.get(node) === 'staged' ? this.#stageAt(node) : null;
  }

  #stageAt({ id }: Node): number {
    const later = this.#starts.findIndex((start) => id <= start);
    return later < 0 ? this.#starts.length : later;
  }
}

/**
 * Returns a predicate for nodes whose contents come from outside of the pass. `updates` are the assigns that the pass
 * itself makes.
 */
function leafOf(
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
 * What a value follows from: constants, the batch, state (parameters and buffers), or both the batch and state
 * (`staged`). Only a staged value belongs to a stage. The others are computed wherever they are read.
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

/** Returns the parameters and buffers below an expression of kind `state`. */
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

/** Returns the roots and all nodes that they need, in the order of the program. */
function nodesBelow(roots: readonly Node[], isLeaf: (node: Node) => boolean): Node[] {
  const seen = new Set(roots);
  for (const node of seen) if (!isLeaf(node)) for (const input of node.inputs) seen.add(input);
  return [...seen].toSorted((a, b) => a.id - b.id);
}

/** Returns the nodes through which gradients flow from the loss to parameters. */
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
