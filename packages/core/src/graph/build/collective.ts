import type { Shape } from '../../spec/dtype.ts';
import type { AxisParams, AxisType, CollectiveOp, OpParams } from '../../spec/op.ts';
import { collectiveAxisTypes } from '../collective-axis-types.ts';
import { createNode, isGradEnabled } from '../create-node.ts';
import type { Node } from '../node.ts';
import { newIdentity } from '../collective-identity.ts';
import { noteCollective } from '../program-order.ts';

function collective<K extends CollectiveOp>(
  op: K,
  params: OpParams[K],
  x: Node,
  others: readonly Node[] = [],
): Node {
  const types = collectiveAxisTypes(op, params, x, isGradEnabled());
  const node = createNode(op, params, [x, ...others], types);
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
