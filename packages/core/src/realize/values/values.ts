import { elementCount } from '../../base/shape.ts';
import { newWalk } from '../../graph/create-node.ts';
import type { Node } from '../../graph/node.ts';
import { isCollectiveOp, isTransferOp } from '../../graph/ops/ops.ts';
import { type DType, dtypes, type Shape } from '../../spec/dtype.ts';
import type { CollectiveOp, ComputeOp, OpParams, TransferOp } from '../../spec/op.ts';
import type { Expanded } from './expand.ts';
import { EqualValues } from './equal-values.ts';

type RunnableOp = ComputeOp | CollectiveOp | TransferOp;

/** An op of a plan. Its id is its index in the list. Its inputs are smaller ids. */
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
  /** All values. The first `leafCount` are inputs. */
  readonly values: readonly Value[];
  readonly leafCount: number;
  /** For each value, the era of its node. */
  readonly eras: readonly number[];
  readonly roots: readonly number[];
  readonly updates: readonly { readonly target: number; readonly value: number }[];
  /** The values of the numbers of rows that the run computes. Shape: i32 [] each. */
  readonly rowCounts: readonly number[];
}

export interface Numbering {
  readonly graph: ValueGraph;
  /** The id of the value of each node of the subgraph, by slot. Undefined for nodes that nothing needs. */
  readonly ids: readonly (number | undefined)[];
  /** For the id of each collective that sends data, the slot of its node. */
  readonly senders: ReadonlyMap<number, number>;
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

export function byteLengthOf({ values }: ValueGraph, id: number): number {
  const { [id]: value } = values;
  if (value === undefined) throw new RangeError(`no value ${id}`);
  return elementCount(value.shape) * dtypes[value.dtype].bytes;
}

/**
 * Numbers the nodes in program order. Equal expressions of one era get one number, so that a decomposed op and its
 * gradient share their parts. Expressions that the backward pass recomputes have another era, because their values are
 * not to be kept. Collectives are never merged, because all ranks must run the same ones. Transfers are not merged,
 * because each holds memory at another time.
 */
export function numberValues(expanded: Expanded): Numbering {
  const walk = newWalk();
  const order = reachable(walk, [
    ...expanded.leaves,
    ...expanded.roots,
    ...expanded.updates.map(({ value }) => value),
    ...expanded.rowCounts,
    ...expanded.collectives.values(),
  ]);
  const values: Value[] = [];
  const eras: number[] = [];
  const equal = new EqualValues(values, eras, order.length);
  // Nothing else uses the nodes of an expansion, so their slots hold ids as long as this walk is the latest.
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
    senders: new Map(Array.from(expanded.collectives, ([slot, node]) => [idOf(node), slot])),
  };
}

/** All nodes that the roots are made of, in program order. Their slots are set to -1. */
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
    node.op === 'distributed' ||
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

/** Skips reshapes of the input of a collective or transfer, which moves bytes whatever their shape. */
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
