import { scale } from '../graph/build/elementwise.ts';
import {
  allGather,
  allReduce,
  allToAll,
  allToAllRows,
  broadcast,
  localChunk,
  reduceScatter,
  reduceToRoot,
  reinterpret,
  sendRecv,
} from '../graph/build/collective.ts';
import type { AxisType, CollectiveOp } from '../spec/op.ts';
import type { GradientRule } from './gradient-rule.ts';

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

/** The destinations of the opposite direction: each rank sends to the rank that it received from. */
function reversed(destination: readonly number[]): number[] {
  return destination.map((_, rank) => destination.indexOf(rank));
}

/**
 * The gradient rules of collectives. A rule depends on the types before and after the collective, and not only on its
 * name. The gradient of an all-gather to replicate is a reduce-scatter. That of an all-gather to invariant is only the
 * rank's own part, whose gradient is an all-gather in turn. (Megatron's f and g are `reinterpret` invariant ->
 * replicate and `allReduce` partial -> invariant.)
 */
export const collectiveRules: { readonly [K in CollectiveOp]: GradientRule<K> } = {
  allReduce: (node, gradient) => {
    const { reduce, to, size } = node.params;
    if (to === 'replicate') return [allReduce(gradient, node.params, { reduce })];
    const same = reinterpret(gradient, node.params, 'invariant', 'replicate');
    return [reduce === 'avg' ? scale(same, 1 / size) : same];
  },
  allGather: (node, gradient) => {
    const { dim, to } = node.params;
    if (to === 'replicate') return [reduceScatter(gradient, node.params, dim)];
    return [localChunk(gradient, node.params, dim)];
  },
  reduceScatter: (node, gradient) => {
    const { dim, reduce, size } = node.params;
    const whole = allGather(gradient, node.params, dim);
    return [reduce === 'avg' ? scale(whole, 1 / size) : whole];
  },
  allToAll: (node, gradient) => [
    allToAll(gradient, node.params, node.params.concatDim, node.params.splitDim),
  ],
  allToAllRows: (node, gradient) => {
    const [x, sent, received] = node.inputs;
    if (x === undefined || sent === undefined || received === undefined) {
      throw new RangeError('rows without counts');
    }
    return [allToAllRows(gradient, node.params, received, sent, x.shape), null, null];
  },
  broadcast: (node, gradient) => [reduceToRoot(gradient, node.params, node.params.root)],
  reduce: (node, gradient) => [broadcast(gradient, node.params, node.params.root)],
  sendRecv: (node, gradient) => [
    sendRecv(gradient, node.params, reversed(node.params.destination)),
  ],
  localChunk: (node, gradient) => [allGather(gradient, node.params, node.params.dim, 'invariant')],
  reinterpret: (node, gradient) => {
    const { from, to } = node.params;
    // The gradient arrives with the type that belongs to `to` and leaves with the type that belongs to `from`.
    if (from === 'invariant' && to === 'replicate')
      return [allReduce(gradient, node.params, { to: 'invariant' })];
    return [reinterpret(gradient, node.params, gradientType[to], gradientType[from])];
  },
};
