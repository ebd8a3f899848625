import { rankState } from '../ambient.ts';
import type { DType } from '../spec/dtype.ts';
import { LayoutError } from '../spec/errors.ts';
import type { AxisType, Op, OpParams } from '../spec/op.ts';
import { type KnownAxisType, unset } from './axis-types.ts';
import { CallSite } from './call-site.ts';
import type { Node } from './node.ts';
import type { LinearIn } from './op-entry.ts';

/** A node that is about to be made. */
export interface NewNode<K extends Op = Op> {
  readonly op: K;
  readonly params: OpParams[K];
  readonly inputs: readonly Node[];
  readonly dtype: DType;
  /** Whether a gradient comes through the node to those inputs that require one. */
  readonly inGradient: boolean;
  readonly linearIn: LinearIn;
}

interface Fault {
  readonly op: string;
  readonly axis: string;
  readonly inputs: readonly Node[];
  /** The text of the message that follows the name of the op and its line. */
  readonly of: string;
  readonly found: string;
  readonly todo: string;
}

/** Makes an error that names the line of the user's code that is running. */
export function axisFault({ op, axis, inputs, of, found, todo }: Fault): LayoutError {
  const { line } = new CallSite(op);
  const names = inputs.map((input) => nameNear(input, axis));
  const path = names.find((name) => name !== null) ?? null;
  return new LayoutError(
    { asked: `${op}${line === null ? '' : ` at ${line}`}, ${of}`, found, todo },
    {
      op,
      axis,
      types: inputs.map((input) => typeOn(input, axis)),
      names,
      module: path === null ? null : path.slice(0, Math.max(0, path.lastIndexOf('.'))),
      line,
    },
  );
}

/** The error for an op in which an invariant value meets a value that each rank has, or uses, in its own way. */
export function tornFault({ op, inputs }: NewNode, axis: string): LayoutError {
  const needy = inputs.find((input) => input.requiresGrad && typeOn(input, axis) === 'invariant');
  const other = inputs.find((input) => {
    const type = typeOn(input, axis);
    return type === 'varying' || (type === 'replicate' && input.requiresGrad);
  });
  return axisFault({
    op,
    axis,
    inputs,
    of: `of ${describe(needy, axis)} and ${describe(other, axis)}`,
    found: `each rank of '${axis}' would owe the invariant value another gradient`,
    todo: `Use reinterpret(x, '${axis}', 'invariant', 'replicate') in its place, which sums its gradient over the ranks, or name its module in the plan of tensorParallel`,
  });
}

/** The error for an op of terms that are not summed yet, if the op of each term is not a term of the op of the sum. */
export function partialFault({ op, inputs }: NewNode, axis: string): LayoutError {
  return axisFault({
    op,
    axis,
    inputs,
    of: `of ${inputs.map((input) => describe(input, axis)).join(' and ')}`,
    found: `each rank of '${axis}' has a term of a sum, and ${op} of the terms is not ${op} of the sum`,
    todo: `Sum it first: allReduce(x, '${axis}') or reduceScatter(x, '${axis}', dim)`,
  });
}

/** The error for an update after which a leaf would no longer have the type that it is declared to have. */
export function storedFault(target: Node, value: Node, axis: string): LayoutError {
  return axisFault({
    op: 'assign',
    axis,
    inputs: [target, value],
    of: `to ${describe(target, axis)} of ${describe(value, axis)}`,
    found:
      typeOn(value, axis) === 'partial'
        ? `each rank of '${axis}' has a term of a sum`
        : `the ranks of '${axis}' would have different contents from then on`,
    todo: `Store what is the same on all ranks, as the mean of the gradient: allReduce(x, '${axis}', { reduce: 'avg' })`,
  });
}

/** A text such as `'blocks.0.norm.weight' that is invariant on the axis 'tp'`. */
export function describe(node: Node | undefined, axis: string): string {
  if (node === undefined) return 'nothing';
  const type = typeOn(node, axis);
  const name = rankState.axisClaims.get(node) ?? null;
  if (type === 'unset') return name === null ? 'a value of no known type' : `'${name}'`;
  if (type === 'uniform') return 'a number';
  const near = name === null ? nameNear(node, axis) : null;
  const origin = near === null ? '' : ` (made of '${near}')`;
  return `${name === null ? 'a value' : `'${name}'`} that is ${type} on the axis '${axis}'${origin}`;
}

function typeOn(node: Node, axis: string): KnownAxisType {
  return (node.axisTypes ?? unset).on(axis);
}

/** The largest number of nodes that are searched for a name. */
const SEARCHED = 10_000;

/** The name of the nearest named value that a node is made of. Values of the node's own type are preferred. */
function nameNear(node: Node, axis: string): string | null {
  return searchName(node, axis, typeOn(node, axis)) ?? searchName(node, axis, null);
}

function searchName(
  start: Node,
  axis: string,
  type: AxisType | KnownAxisType | null,
): string | null {
  const seen = new Set([start]);
  for (const node of seen) {
    const name = rankState.axisClaims.get(node);
    if (name !== undefined) return name;
    if (seen.size > SEARCHED) return null;
    for (const input of node.inputs) {
      if (type === null || typeOn(input, axis) === type) seen.add(input);
    }
  }
  return null;
}
