import { ConfigError } from '../spec/errors.ts';
import type { AxisType, CollectiveOp, CollectiveParams } from '../spec/op.ts';
import { axisFault, describe } from './axis-faults.ts';
import { type AxisTypes, type KnownAxisType, unset } from './axis-types.ts';
import type { Node } from './node.ts';

/** The types that a collective takes and gives on its axis. */
interface Signature {
  readonly takes: AxisType;
  readonly gives: AxisType;
}

/** The signatures that the comments of spec/op.ts describe. */
const signatures: {
  readonly [K in CollectiveOp]: (params: CollectiveParams[K]) => Signature;
} = {
  allReduce: ({ to }) => ({ takes: 'partial', gives: to }),
  allGather: ({ to }) => ({ takes: 'varying', gives: to }),
  reduceScatter: () => ({ takes: 'partial', gives: 'varying' }),
  allToAll: () => ({ takes: 'varying', gives: 'varying' }),
  allToAllRows: () => ({ takes: 'varying', gives: 'varying' }),
  broadcast: () => ({ takes: 'varying', gives: 'replicate' }),
  reduce: () => ({ takes: 'partial', gives: 'varying' }),
  sendRecv: () => ({ takes: 'varying', gives: 'varying' }),
  localChunk: () => ({ takes: 'invariant', gives: 'varying' }),
  reinterpret: ({ from, to }) => ({ takes: from, gives: to }),
};

/**
 * A value may be passed where a wider type is taken: a replicate value is a varying one that happens to be equal on all
 * ranks, and varying values can be the terms of a sum. The gradients fit: a varying gradient may stand for the partial
 * one of a replicate value, and a replicate gradient for the varying one of a varying value. An invariant value cannot
 * stand for another type.
 */
const width: { readonly [T in Exclude<AxisType, 'invariant'>]: number } = {
  replicate: 0,
  varying: 1,
  partial: 2,
};

/** The changes of type that have a correct gradient rule. With others, values or gradients would have a wrong type. */
const reinterpretations: readonly string[] = [
  'invariant to replicate',
  'replicate to varying',
  'replicate to partial',
  'varying to partial',
];

/**
 * How the result of a collective lies on the axes of the mesh. On axes other than the collective's own it lies as the
 * input does. Throws LayoutError if the collective does not take the type of the input, and ConfigError for a
 * reinterpretation that does not exist.
 */
export function collectiveAxisTypes<K extends CollectiveOp>(
  op: K,
  params: CollectiveParams[K],
  x: Node,
  inGradient: boolean,
): AxisTypes | null {
  const { takes, gives } = signatures[op](params);
  const { axis } = params;
  const types = x.axisTypes ?? unset;
  if (op === 'reinterpret') requireReinterpretation(takes, gives);
  const found = types.on(axis);
  if (!fits(found, takes, inGradient && x.requiresGrad)) {
    throw axisFault({
      op,
      axis,
      inputs: [x],
      of: `of ${describe(x, axis)}`,
      found: `it takes what is ${takes} there`,
      todo: remedy(found, takes, axis),
    });
  }
  // Reinterpreting a value of unknown type does not show that it is the same on all ranks.
  if (op === 'reinterpret' && found === 'unset' && gives === 'replicate') return x.axisTypes;
  return types.with(axis, gives);
}

function fits(found: KnownAxisType, takes: AxisType, needsGradient: boolean): boolean {
  if (found === 'unset' || found === 'uniform') return true;
  if (found === 'invariant' || takes === 'invariant') {
    if (needsGradient || found === takes) return found === takes;
  }
  const same = found === 'invariant' ? 'replicate' : found;
  return width[same] <= width[takes === 'invariant' ? 'replicate' : takes];
}

function remedy(found: KnownAxisType, takes: AxisType, axis: string): string {
  if (found === 'partial')
    return `Sum it first: allReduce(x, '${axis}') or reduceScatter(x, '${axis}', dim)`;
  if (found === 'invariant') {
    return `Use reinterpret(x, '${axis}', 'invariant', 'replicate') in its place, which sums its gradient over the ranks`;
  }
  if (found === 'replicate') {
    return `Have what made it give an invariant value, as allReduce(x, '${axis}', { to: 'invariant' })`;
  }
  return takes === 'invariant' || takes === 'replicate'
    ? `Make it the same on all ranks first, as by allGather(x, '${axis}', dim)`
    : `Say what it is: its type comes from what it was made of`;
}

function requireReinterpretation(from: AxisType, to: AxisType): void {
  const change = `${from} to ${to}`;
  if (reinterpretations.includes(change)) return;
  throw new ConfigError(
    {
      asked: `reinterpret from ${change}`,
      found: `values or gradients would not be what they are said to be; there are ${reinterpretations.join(', ')}`,
      todo: 'Use a collective that makes it so: allReduce, allGather, reduceScatter or localChunk',
    },
    { from, to },
  );
}

/**
 * The type of the gradient of a value of each type. The gradient of a value that each rank uses in its own way
 * (replicate) is a sum over ranks, and every term of a sum (partial) gets the same gradient on all ranks.
 */
export const gradientType: { readonly [T in AxisType]: AxisType } = {
  replicate: 'partial',
  partial: 'replicate',
  invariant: 'invariant',
  varying: 'varying',
};
