import { allGather, allToAll, reduceScatter } from '../../graph/ops/collective.ts';
import { permute, reshape, sliceDim } from '../../graph/ops/movement.ts';
import { withoutAutocast } from '../../graph/autocast.ts';
import { atCallSite, inputNode, noGrad, setEra } from '../../graph/create-node.ts';
import { createNodeOf, decompose, isCompositeOp, ops } from '../../graph/ops/ops.ts';
import { targetOf } from '../../graph/updated-leaves.ts';
import { isOp, type Node } from '../../graph/node.ts';
import { communicates, withCollectiveOrder } from '../../graph/program-order.ts';
import { sizeAt } from '../../base/shape.ts';
import type { BackendLimits } from '../../spec/backend.ts';
import { type DType, isHalfDType, type Shape } from '../../spec/dtype.ts';
import type { CompositeOp } from '../../spec/op.ts';
import type { Subgraph } from '../collect/collect.ts';
import { indexAdd, indexSelect } from '../../graph/ops/index-ops.ts';
import { constant, iota } from '../../graph/ops/leaf.ts';
import { rowCountsOf } from './row-symbols.ts';
import { computeWide } from './compute-wide.ts';
import { hasSizes, withSizes } from '../signature/op-sizes.ts';
import { isSpecial } from '../signature/signature.ts';
import { constantOfLeaf, numberLeaf, varyingConstants } from './varying-numbers.ts';

/** The limits of a backend that decide which ops it is given. */
export type ComputeLimits = Pick<BackendLimits, 'dtypes' | 'native'>;

/** A subgraph in the ops that a backend and a process group take. */
export interface Expanded {
  /** Stand-ins for the subgraph's leaves, in order, followed by leaves for the constants whose numbers vary. */
  readonly leaves: readonly Node[];
  /** The rewritten node for each node of the subgraph, by slot. */
  readonly images: readonly Node[];
  /** The rewritten node for each root. */
  readonly roots: readonly Node[];
  /** In-place updates: `value` goes into the memory of leaf number `target`. */
  readonly updates: readonly { readonly target: number; readonly value: Node }[];
  /** The nodes of the numbers of rows that the run computes. */
  readonly rowCounts: readonly Node[];
  /** For the slot of each collective that sends data, the node that sends it. It runs even if nothing reads it. */
  readonly collectives: ReadonlyMap<number, Node>;
}

/** The ways in which a rewritten subgraph may differ from the one that was built. */
export interface ExpandOptions {
  /** For each constant, 1 if its number is an input, else 0. Default: none is. */
  readonly varying?: Uint8Array;
  /** Sizes that replace those of the subgraph, in the order of its signature. Throws ShapeError if they do not fit. */
  readonly sizes?: Float64Array;
  /** For each number of rows that the run computes, in the order of `rowCountsOf`, a number to plan with. */
  readonly rows?: readonly number[];
}

/**
 * Rewrites a subgraph. Composites that are not native become primitives. Collectives work along dim 0 only, and those
 * of one rank disappear. Ops on f16 and bf16 compute in f32, and ops on u8 in i32. Nodes that read an update read the
 * value that it stores.
 */
export function expand(
  subgraph: Subgraph,
  roots: readonly Node[],
  limits: ComputeLimits,
  options: ExpandOptions = {},
): Expanded {
  try {
    return atCallSite('none', () =>
      withCollectiveOrder('apart', () =>
        noGrad(() => withoutAutocast(() => expanded(subgraph, roots, limits, options))),
      ),
    );
  } finally {
    // The era must be reset also if rewriting throws, as it does for sizes that do not fit each other.
    setEra(0);
  }
}

function expanded(
  subgraph: Subgraph,
  roots: readonly Node[],
  limits: ComputeLimits,
  { varying = new Uint8Array(0), sizes, rows = [] }: ExpandOptions,
): Expanded {
  let place = 0;
  const nextSize = (own: number): number => (isSpecial(own) ? own : (sizes?.[place++] ?? own));
  const counts = rowCountsOf(subgraph);
  const rowsOf = ({ rowCount }: Node): number =>
    rows[counts.findIndex(({ count }) => count === rowCount?.count)] ?? Number.NaN;
  const images: Node[] = subgraph.leaves.map(({ shape, dtype }) =>
    placeholder(shape.map(nextSize), dtype),
  );
  const numbers = new Map(
    varyingConstants(subgraph, varying).map((node) => [node, placeholderOf(numberLeaf(node))]),
  );
  const leaves = [...images, ...numbers.values()];
  const assigned = subgraph.computed.filter(({ op }) => op === 'assign').map(targetOf);
  const updatedLeaves = new Set(assigned.map(({ slot }) => images[slot]));
  const updates = new Map<number, Node>();
  const collectives = new Map<number, Node>();
  const imageOf = (node: Node): Node => {
    const image = images[node.slot];
    if (image === undefined) throw new RangeError(`no image of slot ${node.slot}`);
    return image;
  };
  for (const built of subgraph.computed) {
    const inputs = built.inputs.map(imageOf);
    setEra(built.era);
    const number = isOp(built, 'constant') ? numbers.get(built) : undefined;
    const node =
      sizes !== undefined && hasSizes(built)
        ? withSizes(built, (own) => (Number.isNaN(own) ? rowsOf(built) : nextSize(own)))
        : built;
    if (isOp(node, 'constant') && number !== undefined) images.push(constantOfLeaf(number, node));
    else if (isOp(node, 'takeRows'))
      images.push(firstRows(only(inputs.slice(0, 1)), rowsOf(built)));
    else if (isOp(node, 'fillRows')) images.push(filledRows(only(inputs), node.params.rows));
    else if (isOp(node, 'assign')) images.push(assign(node, inputs, updates, updatedLeaves));
    else images.push(rewrite(node, inputs, limits));
    if (communicates(node)) collectives.set(images.length - 1, senderIn(images.at(-1), node.op));
  }
  setEra(0);
  // A result has memory of its own, because the leaf that it would share may be updated, in this run or later.
  const results = roots.map(imageOf).map((image) => (image.op === 'input' ? copy(image) : image));
  return {
    leaves,
    images,
    roots: results,
    updates: Array.from(updates, ([target, value]) => ({ target, value })),
    rowCounts: counts.map(({ count }) => imageOf(count)),
    collectives,
  };
}

/** The collective in the image of one, whose result may be moved about. */
function senderIn(image: Node | undefined, op: Node['op']): Node {
  if (image === undefined) throw new RangeError('a collective without image');
  return image.op === op ? image : senderIn(image.inputs[0], op);
}

/** Shape: x [N, ..] -> [rows, ..]. */
function firstRows(x: Node, rows: number): Node {
  return indexSelect(x, 0, iota([rows], 0));
}

/** Shape: x [M, ..] -> [rows, ..]. */
function filledRows(x: Node, rows: number): Node {
  const [own = 0, ...row] = x.shape;
  return indexAdd(constant(0, [rows, ...row], x.dtype), 0, iota([own], 0), x);
}

function placeholder(shape: Shape, dtype: DType): Node {
  return inputNode(shape, dtype, { kind: 'host', bytes: new Uint8Array(0) });
}

/** Copies the contents of a leaf to a value of the run, which an update of the leaf does not change. */
function copy(leaf: Node): Node {
  return createNodeOf('reshape', { shape: leaf.shape }, [leaf]);
}

function placeholderOf({ shape, dtype }: Node): Node {
  return placeholder(shape, dtype);
}

function only(inputs: readonly Node[]): Node {
  const [input] = inputs;
  if (input === undefined) throw new RangeError('an op without input');
  return input;
}

function assign(
  node: Node<'assign'>,
  inputs: readonly Node[],
  updates: Map<number, Node>,
  updatedLeaves: ReadonlySet<Node | undefined>,
): Node {
  const [, assigned] = inputs;
  if (assigned === undefined) throw new RangeError('assign takes a target and a value');
  // If the value is another leaf that this run updates, its contents from before the run are meant.
  const value = updatedLeaves.has(assigned) ? copy(assigned) : assigned;
  const { slot } = targetOf(node);
  updates.delete(slot);
  updates.set(slot, value);
  return value;
}

function rewrite(node: Node, inputs: readonly Node[], limits: ComputeLimits): Node {
  if (node.op === 'detach' || node.op === 'ownGradient' || node.op === 'reinterpret') {
    return only(inputs);
  }
  if (isOp(node, 'pageIn') && only(inputs).op !== 'pageOut') return only(inputs);
  if (isAlone(node) && ops[node.op].isIdentityForOneRank) return only(inputs);
  if (isOp(node, 'localChunk')) return chunkAlong(only(inputs), node.params);
  if (isOp(node, 'allGather')) return gatherAlong(only(inputs), node.params);
  if (isOp(node, 'reduceScatter')) return scatterAlong(only(inputs), node.params);
  if (isOp(node, 'allToAll')) return exchangeAlong(only(inputs), node.params);
  if (isOp(node, 'cast'))
    return unwidened(only(inputs), node.dtype) ?? compute(node, inputs, limits);
  return computeWide(node, inputs, limits.dtypes, (wide) => compute(node, wide, limits));
}

function compute(node: Node, inputs: readonly Node[], limits: ComputeLimits): Node {
  if (isCompositeOp(node.op) && !limits.native.has(node.op)) {
    const parts = decompose(node.op, paramsOf(node, node.op), inputs);
    return expandParts(parts, inputs, limits);
  }
  return createNodeOf(node.op, node.params, inputs);
}

/** If x is a 16-bit value that was cast to f32, and `dtype` is the dtype that it had, the value before that cast. */
function unwidened(x: Node, dtype: DType): Node | undefined {
  const [narrow] = x.inputs;
  const isWidened = x.op === 'cast' && x.dtype === 'f32' && isHalfDType(dtype);
  return isWidened && narrow?.dtype === dtype ? narrow : undefined;
}

function paramsOf<K extends CompositeOp>(node: Node, op: K): Node<K>['params'] {
  if (isOp(node, op)) return node.params;
  throw new TypeError(`${node.op} is not ${op}`);
}

/** Rewrites the nodes of a decomposition down to `stops`, because decompositions may use composites themselves. */
function expandParts(root: Node, stops: readonly Node[], limits: ComputeLimits): Node {
  const images = new Map<Node, Node>(stops.map((stop) => [stop, stop]));
  const visit = (node: Node): Node => {
    const known = images.get(node);
    if (known !== undefined) return known;
    const inputs = node.inputs.map(visit);
    const changed = inputs.some((input, index) => input !== node.inputs[index]);
    const composite = isCompositeOp(node.op) && !limits.native.has(node.op);
    const image = composite || changed ? rewrite(node, inputs, limits) : node;
    images.set(node, image);
    return image;
  };
  return visit(root);
}

/** Whether a collective is over an axis of one rank. */
function isAlone({ params }: Node): boolean {
  return 'size' in params && params.size === 1;
}

/** Makes dim `from` dim `to`. The other dims keep their order. */
function moveDim(x: Node, from: number, to: number): Node {
  if (from === to) return x;
  const order = x.shape.map((_, dim) => dim).filter((dim) => dim !== from);
  order.splice(to, 0, from);
  return permute(x, order);
}

/** Merges a dim with the next one. */
function mergeDims(x: Node, dim: number): Node {
  const size = sizeAt(x.shape, dim) * sizeAt(x.shape, dim + 1);
  return reshape(x, [...x.shape.slice(0, dim), size, ...x.shape.slice(dim + 2)]);
}

/** Splits a dim into two: `parts`, and the size of a part. */
function splitDim(x: Node, dim: number, parts: number): Node {
  return reshape(x, [
    ...x.shape.slice(0, dim),
    parts,
    sizeAt(x.shape, dim) / parts,
    ...x.shape.slice(dim + 1),
  ]);
}

function chunkAlong(x: Node, { dim, size, rank }: Node<'localChunk'>['params']): Node {
  const part = sizeAt(x.shape, dim) / size;
  return sliceDim(x, dim, rank * part, (rank + 1) * part);
}

function gatherAlong(x: Node, params: Node<'allGather'>['params']): Node {
  if (params.dim === 0) return allGather(x, params, 0, params.to);
  const ranks = allGather(reshape(x, [1, ...x.shape]), params, 0, params.to);
  return mergeDims(moveDim(ranks, 0, params.dim), params.dim);
}

function scatterAlong(x: Node, params: Node<'reduceScatter'>['params']): Node {
  if (params.dim === 0) return reduceScatter(x, params, 0, params.reduce, params.pass);
  const parts = moveDim(splitDim(x, params.dim, params.size), params.dim, 0);
  const mine = reduceScatter(parts, params, 0, params.reduce, params.pass);
  return reshape(mine, mine.shape.slice(1));
}

function exchangeAlong(x: Node, params: Node<'allToAll'>['params']): Node {
  const parts = moveDim(splitDim(x, params.splitDim, params.size), params.splitDim, 0);
  const arrived = allToAll(parts, params, 0, 0);
  return mergeDims(moveDim(reshape(arrived, parts.shape), 0, params.concatDim), params.concatDim);
}
