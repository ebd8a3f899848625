import { newWalk } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { isCollectiveOp, isTransferOp } from '../graph/op-facts.ts';
import type { DType, Shape } from '../spec/dtype.ts';
import type { CollectiveOp, ComputeOp, OpParams, TransferOp } from '../spec/op.ts';
import type { Expanded } from './expand.ts';
import { EqualValues } from './equal-values.ts';

type RunnableOp = ComputeOp | CollectiveOp | TransferOp;

/** An op of a plan; its id is its place in the list, and inputs are smaller ids. */
export type Value = {
  [K in RunnableOp | 'input']: {
    readonly op: K;
    readonly params: OpParams[K];
    readonly inputs: readonly number[];
    readonly shape: Shape;
    readonly dtype: DType;
  };
}[RunnableOp | 'input'];

export interface ValueGraph {
  /** The first `leafCount` are inputs. */
  readonly values: readonly Value[];
  readonly leafCount: number;
  /** For each value the era of the node that it stands for. */
  readonly eras: readonly number[];
  readonly roots: readonly number[];
  readonly updates: readonly { readonly target: number; readonly value: number }[];
  /** Numbers of rows that the run computes, i32 []. */
  readonly rowCounts: readonly number[];
}

export interface Numbering {
  readonly graph: ValueGraph;
  /** What stands for each node of the subgraph, by slot; undefined where nothing needs it. */
  readonly ids: readonly (number | undefined)[];
}

export type CollectiveValue = Extract<Value, { op: CollectiveOp }>;
export type TransferValue = Extract<Value, { op: TransferOp }>;
export type ComputeValue = Extract<Value, { op: ComputeOp }>;

export function isCollective(value: Value): value is CollectiveValue {
  return isCollectiveOp(value.op);
}

function isTransfer(value: Value): value is TransferValue {
  return isTransferOp(value.op);
}

export function isCompute(value: Value): value is ComputeValue {
  return value.op !== 'input' && !isCollective(value) && !isTransfer(value);
}

/**
 * Numbers the nodes in program order. Equal expressions get one number (a decomposed forward and
 * its backward share their parts), but for those that backward makes again so that they need not be
 * kept; collectives never merge, as all ranks must run the same ones, nor do transfers, each of which
 * holds memory for a while of its own.
 */
export function numberValues(expanded: Expanded): Numbering {
  const walk = newWalk();
  const order = reachable(walk, [
    ...expanded.leaves,
    ...expanded.roots,
    ...expanded.updates.map(({ value }) => value),
    ...expanded.rowCounts,
  ]);
  const values: Value[] = [];
  const eras: number[] = [];
  const equal = new EqualValues(values, eras, order.length);
  // The nodes of an expansion are nobody else's: while this walk is the latest, their slots are ids.
  const idOf = ({ op, mark, slot }: Node): number => {
    if (mark !== walk || slot < 0) throw new RangeError(`${op} has no number`);
    return slot;
  };
  const add = (node: Node, value: Value): number => {
    eras.push(node.era);
    return values.push(value) - 1;
  };
  for (const leaf of expanded.leaves) leaf.slot = add(leaf, valueOf(leaf, [], []));
  for (const node of order) {
    if (node.slot >= 0) continue;
    const value = valueOf(node, node.inputs.map(idOf), values);
    const own = (): number => add(node, value);
    node.slot = isCompute(value) ? equal.idOf(value, node.era, own) : own();
  }
  const graph = {
    values,
    leafCount: expanded.leaves.length,
    eras,
    roots: expanded.roots.map(idOf),
    updates: expanded.updates.map(({ target, value }) => ({ target, value: idOf(value) })),
    rowCounts: expanded.rowCounts.map(idOf),
  };
  return {
    graph,
    ids: expanded.images.map(({ mark, slot }) => (mark === walk ? slot : undefined)),
  };
}

/** What the roots are made of, in program order, with slots of -1. */
function reachable(walk: number, roots: readonly Node[]): Node[] {
  const found: Node[] = [];
  const visit = (node: Node): void => {
    if (node.mark === walk) return;
    node.mark = walk;
    node.slot = -1;
    found.push(node);
  };
  roots.forEach(visit);
  for (let next = 0; next < found.length; next++) found[next]?.inputs.forEach(visit);
  return found.sort((a, b) => a.id - b.id);
}

function valueOf(node: Node, inputs: readonly number[], earlier: readonly Value[]): Value {
  if (
    node.op === 'assign' ||
    node.op === 'detach' ||
    node.op === 'ownGradient' ||
    node.op === 'takeRows' ||
    node.op === 'fillRows'
  )
    throw new TypeError(`${node.op} outlived the expansion`);
  const value = typedValue(node.op, node, inputs);
  if (isCompute(value)) return value;
  return { ...value, inputs: inputs.map((id) => unshaped(earlier, id)) };
}

/** Collectives and transfers move bytes, whatever their shape. */
function unshaped(values: readonly Value[], id: number): number {
  const value = values[id];
  const [input] = value?.inputs ?? [];
  return value?.op === 'reshape' && input !== undefined ? unshaped(values, input) : id;
}

function typedValue(op: RunnableOp | 'input', node: Node, inputs: readonly number[]): Value {
  const { params, shape, dtype } = node;
  // The op and its parameters come from one node, which typed them together.
  return { op, params, inputs, shape, dtype } as Value;
}
