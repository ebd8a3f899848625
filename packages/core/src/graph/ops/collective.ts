import { formatShape, sameShape, sizeAt } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import type { AxisParams, AxisType, CollectiveOp, OpParams } from '../../spec/op.ts';
import { collectiveAxisTypes, gradientType } from '../collective-axis-types.ts';
import { newIdentity } from '../collective-identity.ts';
import { createNode, isGradEnabled } from '../create-node.ts';
import { at, divided, first, requireSizes, same, shapeFault, withSize } from '../infer-checks.ts';
import type { Node } from '../node.ts';
import { localCollective, type SimpleEntries, travelling } from '../op-entry.ts';
import { noteCollective } from '../program-order.ts';
import { scale } from './elementwise.ts';

/**
 * Collectives. A gradient depends on the types before and after the collective, and not only on its name. The gradient of an all-gather to replicate is a reduce-scatter. That of an all-gather to invariant is only the
 * rank's own part, whose gradient is an all-gather in turn. (Megatron's f and g are `reinterpret` invariant ->
 * replicate and `allReduce` partial -> invariant.)
 */
export const collectiveOps: SimpleEntries<CollectiveOp> = {
  allReduce: {
    ...travelling,
    worksInPlace: true,
    infer: same,
    gradient: (node, gradient) => {
      const { reduce, to, size } = node.params;
      if (to === 'replicate') return [allReduce(gradient, node.params, { reduce })];
      const ofEach = reinterpret(gradient, node.params, 'invariant', 'replicate');
      return [reduce === 'avg' ? scale(ofEach, 1 / size) : ofEach];
    },
  },
  allGather: {
    ...travelling,
    infer: (params, inputs) => {
      const { shape, dtype } = first(inputs);
      return { shape: withSize(shape, params.dim, sizeAt(shape, params.dim) * params.size), dtype };
    },
    gradient: (node, gradient) => {
      const { dim, to } = node.params;
      if (to === 'replicate') return [reduceScatter(gradient, node.params, dim)];
      return [localChunk(gradient, node.params, dim)];
    },
  },
  reduceScatter: {
    ...travelling,
    infer: (params, inputs) => {
      const { shape, dtype } = first(inputs);
      return { shape: divided('reduceScatter', inputs, params.dim, params.size, shape), dtype };
    },
    gradient: (node, gradient) => {
      const { dim, reduce, size } = node.params;
      const whole = allGather(gradient, node.params, dim);
      return [reduce === 'avg' ? scale(whole, 1 / size) : whole];
    },
  },
  allToAll: {
    ...travelling,
    infer: (params, inputs) => {
      const { shape, dtype } = first(inputs);
      const split = divided('allToAll', inputs, params.splitDim, params.size, shape);
      return {
        shape: withSize(split, params.concatDim, sizeAt(split, params.concatDim) * params.size),
        dtype,
      };
    },
    gradient: (node, gradient) => [
      allToAll(gradient, node.params, node.params.concatDim, node.params.splitDim),
    ],
  },
  allToAllRows: {
    ...travelling,
    isIdentityForOneRank: false,
    linearIn: [],
    infer: ({ shape, size }, inputs) => {
      const [x, sent, received] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
      requireSizes('allToAllRows', shape);
      for (const counts of [sent, received]) {
        if (counts.dtype !== 'i32' || !sameShape(counts.shape, [size])) {
          throw shapeFault(
            'allToAllRows',
            inputs,
            `counts ${counts.dtype} of shape ${formatShape(counts.shape)}`,
            `Use counts i32 of shape [${size}], one for each rank`,
          );
        }
      }
      if (x.shape.length === 0 || !sameShape(shape.slice(1), x.shape.slice(1))) {
        throw shapeFault(
          'allToAllRows',
          inputs,
          `rows of shape ${formatShape(shape.slice(1))}`,
          'Use rows of one shape',
        );
      }
      return { shape, dtype: x.dtype };
    },
    gradient: ({ params }, gradient, _, { shape }, sent, received) => [
      allToAllRows(gradient, params, received, sent, shape),
      null,
      null,
    ],
  },
  broadcast: {
    ...travelling,
    worksInPlace: true,
    infer: same,
    gradient: (node, gradient) => [reduceToRoot(gradient, node.params, node.params.root)],
  },
  reduce: {
    ...travelling,
    worksInPlace: true,
    infer: same,
    gradient: (node, gradient) => [broadcast(gradient, node.params, node.params.root)],
  },
  sendRecv: {
    ...travelling,
    // With one rank, the rank may send to itself, or to nobody, which gives zeros.
    isIdentityForOneRank: false,
    infer: same,
    gradient: (node, gradient) => [
      sendRecv(gradient, node.params, reversed(node.params.destination)),
    ],
  },
  localChunk: {
    ...localCollective,
    isIdentityForOneRank: true,
    infer: (params, inputs) => {
      const { shape, dtype } = first(inputs);
      return { shape: divided('localChunk', inputs, params.dim, params.size, shape), dtype };
    },
    gradient: (node, gradient) => [allGather(gradient, node.params, node.params.dim, 'invariant')],
  },
  reinterpret: {
    ...localCollective,
    memory: 'input',
    infer: same,
    gradient: (node, gradient) => {
      const { from, to } = node.params;
      // The gradient arrives with the type that belongs to `to` and leaves with the type that belongs to `from`.
      if (from === 'invariant' && to === 'replicate')
        return [allReduce(gradient, node.params, { to: 'invariant' })];
      return [reinterpret(gradient, node.params, gradientType[to], gradientType[from])];
    },
  },
};

/** The destinations of the opposite direction: each rank sends to the rank that it received from. */
function reversed(destination: readonly number[]): number[] {
  return destination.map((_, rank) => destination.indexOf(rank));
}

function collective<K extends CollectiveOp>(
  op: K,
  params: OpParams[K],
  x: Node,
  others: readonly Node[] = [],
): Node {
  const types = collectiveAxisTypes(op, params, x, isGradEnabled());
  const node = createNode(collectiveOps[op], op, params, [x, ...others], types);
  if (params.size > 1) node.identity = newIdentity(op, params.axis);
  noteCollective(node);
  return node;
}

/** partial -> replicate or invariant: the sum (or mean) over the axis. */
export function allReduce(
  x: Node,
  axis: AxisParams,
  options: {
    reduce?: 'sum' | 'avg';
    to?: 'replicate' | 'invariant';
    bucket?: number;
    pass?: number;
  } = {},
): Node {
  const { reduce = 'sum', to = 'replicate', bucket = -1, pass = 0 } = options;
  return collective(
    'allReduce',
    { axis: axis.axis, size: axis.size, rank: axis.rank, reduce, to, bucket, pass },
    x,
  );
}

/** varying -> replicate or invariant: the shards of all ranks, concatenated along `dim`. */
export function allGather(
  x: Node,
  axis: AxisParams,
  dim: number,
  to: 'replicate' | 'invariant' = 'replicate',
): Node {
  return collective('allGather', { axis: axis.axis, size: axis.size, rank: axis.rank, dim, to }, x);
}

/** partial -> varying: this rank's part, along `dim`, of the sum (or mean). */
export function reduceScatter(
  x: Node,
  axis: AxisParams,
  dim: number,
  reduce: 'sum' | 'avg' = 'sum',
  pass = 0,
): Node {
  return collective(
    'reduceScatter',
    { axis: axis.axis, size: axis.size, rank: axis.rank, dim, reduce, pass },
    x,
  );
}

/** varying -> varying. */
export function allToAll(x: Node, axis: AxisParams, splitDim: number, concatDim: number): Node {
  return collective(
    'allToAll',
    { axis: axis.axis, size: axis.size, rank: axis.rank, splitDim, concatDim },
    x,
  );
}

/**
 * varying -> varying: sends rows to each rank and receives rows from each, in the order of the ranks. `sent` and
 * `received` say how many.
 */
export function allToAllRows(
  x: Node,
  axis: AxisParams,
  sent: Node,
  received: Node,
  shape: Shape,
): Node {
  const params = { axis: axis.axis, size: axis.size, rank: axis.rank, shape };
  return collective('allToAllRows', params, x, [sent, received]);
}

/** varying -> replicate: root's value on every rank. */
export function broadcast(x: Node, axis: AxisParams, root: number): Node {
  return collective('broadcast', { axis: axis.axis, size: axis.size, rank: axis.rank, root }, x);
}

/** partial -> varying: the sum on root, zeros elsewhere. */
export function reduceToRoot(x: Node, axis: AxisParams, root: number): Node {
  return collective('reduce', { axis: axis.axis, size: axis.size, rank: axis.rank, root }, x);
}

/** varying -> varying: sends x to rank destination[rank]. A rank to which nothing is sent gets zeros. */
export function sendRecv(x: Node, axis: AxisParams, destination: readonly number[]): Node {
  return collective(
    'sendRecv',
    { axis: axis.axis, size: axis.size, rank: axis.rank, destination },
    x,
  );
}

/** invariant -> varying: this rank's part along `dim`. Moves no data. Its gradient is all-gathered. */
export function localChunk(x: Node, axis: AxisParams, dim: number): Node {
  return collective('localChunk', { axis: axis.axis, size: axis.size, rank: axis.rank, dim }, x);
}

/** Moves no data. Changes the type on the axis, and so the way in which the gradient comes back. */
export function reinterpret(x: Node, axis: AxisParams, from: AxisType, to: AxisType): Node {
  return collective(
    'reinterpret',
    { axis: axis.axis, size: axis.size, rank: axis.rank, from, to },
    x,
  );
}
