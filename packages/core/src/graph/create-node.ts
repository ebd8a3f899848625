import { currentScope, rankState, within } from '../ambient.ts';
import { kindOf } from '../base/dtype-kind.ts';
import { type DType, isHalfDType, type Shape } from '../spec/dtype.ts';
import type { Op, OpParams } from '../spec/op.ts';
import { type AxisTypes, uniform } from './axis-types.ts';
import { CallSite } from './call-site.ts';
import { first } from './infer-checks.ts';
import { joinAxisTypes } from './join-axis-types.ts';
import { movement, type NewNodeEntry, type OpFacts, type SimpleEntries } from './op-entry.ts';
import { hasUnknownRows, rowCountOf } from './row-counts.ts';
import { Node, none, type NodeValue, type Region } from './node.ts';
import { noteUse } from './program-order.ts';

/**
 * Makes a node of inferred shape and dtype. Throws ShapeError, DTypeError or LayoutError if the op does not take its
 * inputs. The caller gives `axisTypes` if they cannot be inferred, as for the result of a collective. If only a run
 * knows the number of rows, and the inputs do not say it, it is that of `like`.
 */
export function createNode<K extends Op>(
  entry: NewNodeEntry<K>,
  op: K,
  params: OpParams[K],
  given: readonly Node[],
  axisTypes?: AxisTypes | null,
  like: Node | null = null,
): Node {
  const inputs = autocastInputs(entry, given);
  const { shape, dtype } = entry.infer(params, inputs, op);
  const inGradient = isGradEnabled() && kindOf(dtype) === 'float';
  let requiresGrad = false;
  let ofGradient = false;
  // Types are joined only if an input has some. Most values have none, or are made of numbers only.
  let types: AxisTypes | null = uniform;
  let isTyped = false;
  let hasUnknown = hasUnknownRows(shape);
  // Loops by index make no iterators, of which a step would make some thousands.
  for (let index = 0; index < inputs.length; index++) {
    const input = inputs[index]!;
    const { distributed } = input;
    if (distributed !== null) return distributed.apply(op, params, inputs, { shape, dtype });
    if (inGradient) {
      requiresGrad ||= input.requiresGrad;
      ofGradient ||= input.ofGradient;
    }
    hasUnknown ||= input.rowCount !== null;
    if (input.axisTypes === null) types = null;
    else if (input.axisTypes !== uniform) isTyped = true;
  }
  if (axisTypes !== undefined) types = axisTypes;
  else if (isTyped) {
    types = joinAxisTypes({ op, params, inputs, dtype, inGradient, linearIn: entry.linearIn });
  }
  const node = makeNode(op, params, inputs, shape, dtype, requiresGrad);
  node.ofGradient = ofGradient;
  if (hasUnknown) node.rowCount = rowCountOf(op, inputs, shape, like);
  node.axisTypes = types;
  return node;
}

/**
 * The inputs of an op, cast to the dtype that the op takes inside autocast. f64 stays as it is, because a user who asks
 * for f64 wants its precision.
 */
function autocastInputs(
  facts: Pick<OpFacts, 'autocast'>,
  inputs: readonly Node[],
): readonly Node[] {
  const { autocast } = currentScope();
  if (autocast === null) return inputs;
  const { autocast: policy } = facts;
  if (policy === 'asGiven') return inputs;
  const dtype = policy === 'f32' ? 'f32' : autocast;
  return inputs.map((input) => {
    const isTaken = policy === 'f32' ? isHalfDType(input.dtype) : kindOf(input.dtype) === 'float';
    if (!isTaken || input.dtype === dtype || input.dtype === 'f64') return input;
    const cast = (): Node => createNode(castOps.cast, 'cast', { dtype }, [input]);
    // The input is a parameter that is unsharded for this pass only. The cast joins its region, so that backward makes
    // the copy of 16 bits again, too, instead of having it kept.
    return input.op === 'detach' && input.region !== null ? inRegion(input.region, cast) : cast();
  });
}

/** Inside autocast, any op may cast its inputs. So its entry is here, and the others are in `ops`. */
export const castOps: SimpleEntries<'cast'> = {
  cast: {
    ...movement,
    dims: 'elementwise',
    infer: ({ dtype }, inputs) => ({ shape: first(inputs).shape, dtype }),
    gradient: (node, gy, _, { dtype }) => {
      if (kindOf(dtype) !== 'float' || kindOf(node.dtype) !== 'float') return [null];
      return [gy.dtype === dtype ? gy : createNode(castOps.cast, 'cast', { dtype }, [gy])];
    },
  },
};

/** A leaf that holds `value`. With null, the caller must give it a value before anything reads it. */
export function inputNode(
  shape: Shape,
  dtype: DType,
  value: NodeValue | null,
  requiresGrad = false,
): Node<'input'> {
  const node = makeNode('input', none, [], shape, dtype, requiresGrad);
  node.value = value;
  return node;
}

/** Makes the next node of the program from these parts, without checking or inferring anything. */
export function makeNode<K extends Op>(
  op: K,
  params: OpParams[K],
  inputs: readonly Node[],
  shape: Shape,
  dtype: DType,
  requiresGrad: boolean,
): Node<K> {
  const { region, collectiveOrder, isInLibrary } = currentScope();
  const id = rankState.nextNodeId++;
  const { era } = rankState;
  const node = new Node(id, region, era, op, params, inputs, shape, dtype, requiresGrad);
  node.site = siteOf(op);
  node.isOfLibrary = isInLibrary;
  node.isUnused = collectiveOrder === 'ifUsed' || collectiveOrder === 'reductionIfUsed';
  for (let index = 0; index < inputs.length; index++) {
    const input = inputs[index]!;
    if (input.isUnused && !node.isUnused) noteUse(input);
    if (requiresGrad) input.openUses++;
  }
  return node;
}

/** The region that new nodes belong to. */
export function currentRegion(): Region | null {
  return currentScope().region;
}

/** Nodes made inside `body` belong to `region`. Throws ConfigError for a body that returns a promise. */
export function inRegion<T>(region: Region | null, body: () => T): T {
  return within('a forward pass', { region }, body);
}

/** The largest node id so far. New nodes have larger ids. */
export function newestNodeId(): number {
  return rankState.nextNodeId - 1;
}

/**
 * The era of new nodes. Programs begin in era 0, and each recomputation of a backward pass begins another era. Equal
 * expressions of different eras are not merged, and nodes of different eras are not computed in one segment.
 */
export function currentEra(): number {
  return rankState.era;
}

/** Sets the era of the nodes that are made from now on. */
export function setEra(value: number): void {
  rankState.era = value;
}

/**
 * Makes the nodes of `body` in another era, so that they are computed by themselves, after those before, and their
 * intermediate values are gone when they are. Recomputations count eras from 1.
 */
export function inEra<T>(era: number, body: () => T): T {
  const before = rankState.era;
  rankState.era = era;
  try {
    return body();
  } finally {
    rankState.era = before;
  }
}

/** A number for `mark` that no earlier walk used. */
export function newWalk(): number {
  return rankState.nextWalk++;
}

/** False inside noGrad, otherwise true. */
export function isGradEnabled(): boolean {
  return currentScope().isGradEnabled;
}

/** Nodes made inside `body` do not take part in gradients. Throws ConfigError for a body that returns a promise. */
export function noGrad<T>(body: () => T): T {
  return within('noGrad', { isGradEnabled: false }, body);
}

/** If on, all nodes that are made from now on keep their call sites. Otherwise only those do that can fail in a run. */
export function traceCallSites(on: boolean): void {
  rankState.tracesCallSites = on;
}

/**
 * Nodes that `body` makes get this call site, or none. With null, each node captures its own. Capturing one costs more
 * than making a node, and the nodes of a gradient or an update have no line of user code of their own.
 */
export function atCallSite<T>(site: CallSite | 'none' | null, body: () => T): T {
  return site === null ? body() : within('a call', { site }, body);
}

/** The call site of an operation that is called now. Null if nodes keep no call sites. */
export function siteOf(operation: string): CallSite | null {
  const { site, stack } = currentScope();
  if (site === 'none' || !rankState.tracesCallSites) return null;
  return site ?? new CallSite(operation, stack);
}
