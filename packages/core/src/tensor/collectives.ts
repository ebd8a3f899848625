import { axisFault, describe } from '../graph/axis-faults.ts';
import { unset } from '../graph/axis-types.ts';
import * as build from '../graph/ops/collective.ts';
import { axisOf } from '../mesh.ts';
import { currentSession } from '../rank.ts';
import { normalizeDim } from '../base/shape.ts';
import type { AxisParams, AxisType } from '../spec/op.ts';
import { Tensor } from './tensor.ts';
import { requireTensors } from './check-arguments.ts';
import { checkOptions, unfit } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/**
 * The functions of this file are collectives in the graph, over an axis of the rank's mesh. They are differentiable and
 * run when the graph is computed. All ranks must build the same collectives in the same order. The comment of each
 * collective states the axis types of its input and result (replicate, invariant, varying, partial), which determine
 * its gradient. A collective throws LayoutError for a value that is known to have a type that it does not take.
 */
function axisParams(axis: string): AxisParams {
  return axisOf(currentSession().mesh, axis);
}

/** Returns the axis. Throws ConfigError for a root that is not a rank of the axis. */
function axisWithRoot(op: string, axis: string, root: number): AxisParams {
  const params = axisParams(axis);
  checkOptions(op, { root }, { root: option.required(option.integer(0, params.size - 1)) });
  return params;
}

/** Throws LayoutError for a value that is known to be the same on all ranks. `result` says what it would become. */
function requireOwn(op: string, x: Tensor, axis: string, result: string): void {
  const { node } = x;
  const type = (node.axisTypes ?? unset).on(axis);
  if (type !== 'replicate' && type !== 'invariant') return;
  throw axisFault({
    op,
    axis,
    inputs: [node],
    of: `of ${describe(node, axis)}`,
    found: `all ranks of '${axis}' have the same value, so the result would be ${result}`,
    todo: `Use the value as it is; where that is meant, say so: ${op}(reinterpret(x, '${axis}', 'replicate', 'varying'), …)`,
  });
}

const multiple = 'the value times the number of ranks';

export interface AllReduceOptions {
  readonly reduce?: 'sum' | 'avg';
  /** Use 'invariant' if all ranks compute the same with the result: the gradient then needs no communication. */
  readonly to?: 'replicate' | 'invariant';
  /** Consecutive all-reduces with the same bucket number (0 or more) travel as one message. */
  readonly bucket?: number;
  /** The number of the backward pass since the last update, from 1. All ranks must agree on it. Default: none. */
  readonly pass?: number;
}

const allReduceRules: OptionRules<AllReduceOptions> = {
  reduce: option.oneOf('sum', 'avg'),
  to: option.oneOf('replicate', 'invariant'),
  bucket: option.count,
  pass: option.count,
};

/**
 * Sums over the ranks of an axis. partial -> replicate (or invariant). Varying values are summed too. Shape: N -> N.
 */
export function allReduce(x: Tensor, axis: string, options: AllReduceOptions = {}): Tensor {
  requireTensors('allReduce', { x });
  checkOptions('allReduce', options, allReduceRules);
  if (options.reduce !== 'avg') requireOwn('allReduce', x, axis, multiple);
  return new Tensor(build.allReduce(x.node, axisParams(axis), options));
}

/** The sum over several axes, one after the other. Shape: N -> N. */
export function sumOverAxes(x: Tensor, axes: readonly string[]): Tensor {
  return axes.reduce((sum, axis) => allReduce(sum, axis), x);
}

/**
 * varying -> replicate (or invariant): the values of all ranks along `dim`. Shape: [.., D, ..] -> [.., size*D,
 * ..].
 */
export function allGather(
  x: Tensor,
  axis: string,
  dim: number,
  to: 'replicate' | 'invariant' = 'replicate',
): Tensor {
  requireTensors('allGather', { x });
  checkOptions('allGather', { to }, allReduceRules);
  requireOwn('allGather', x, axis, 'copies of it');
  return new Tensor(
    build.allGather(x.node, axisParams(axis), normalizeDim('allGather', dim, x.ndim), to),
  );
}

/**
 * partial -> varying: each rank gets a part of the sum over the ranks. Varying values are summed too. `pass` is
 * as in allReduce. Shape: [.., size*D, ..] -> [.., D, ..].
 */
export function reduceScatter(
  x: Tensor,
  axis: string,
  dim: number,
  reduction: 'sum' | 'avg' = 'sum',
  pass = 0,
): Tensor {
  requireTensors('reduceScatter', { x });
  checkOptions('reduceScatter', { reduce: reduction, pass }, allReduceRules);
  if (reduction === 'sum') requireOwn('reduceScatter', x, axis, multiple);
  return new Tensor(
    build.reduceScatter(
      x.node,
      axisParams(axis),
      normalizeDim('reduceScatter', dim, x.ndim),
      reduction,
      pass,
    ),
  );
}

/**
 * varying -> varying: cuts `splitDim` into a part for each rank, and joins the parts of all ranks along
 * `concatDim`. Shape: [.., size*S, .., C, ..] -> [.., S, .., size*C, ..].
 */
export function allToAll(x: Tensor, axis: string, splitDim: number, concatDim: number): Tensor {
  requireTensors('allToAll', { x });
  const dims = [splitDim, concatDim].map((dim) => normalizeDim('allToAll', dim, x.ndim));
  return new Tensor(build.allToAll(x.node, axisParams(axis), dims[0] ?? 0, dims[1] ?? 0));
}

/** varying -> replicate: root's value on every rank. Shape: N -> N. */
export function broadcast(x: Tensor, axis: string, root = 0): Tensor {
  requireTensors('broadcast', { x });
  return new Tensor(build.broadcast(x.node, axisWithRoot('broadcast', axis, root), root));
}

/** partial -> varying: the sum on root, zeros on the others. Shape: N -> N. */
export function reduce(x: Tensor, axis: string, root = 0): Tensor {
  requireTensors('reduce', { x });
  requireOwn('reduce', x, axis, multiple);
  return new Tensor(build.reduceToRoot(x.node, axisWithRoot('reduce', axis, root), root));
}

/**
 * varying -> varying: sends the value of rank r to rank destination[r]. -1 means that it is sent to no rank. A rank
 * that receives nothing gets zeros. Throws ConfigError unless each rank has a destination, and no two have the same.
 * Shape: N -> N.
 */
export function sendRecv(x: Tensor, axis: string, destination: readonly number[]): Tensor {
  requireTensors('sendRecv', { x });
  const params = axisParams(axis);
  const { size } = params;
  const { fits } = option.listOf(option.integer(-1, size - 1));
  const isList = fits(destination) && destination.length === size;
  const receivers = isList ? destination.filter((rank) => rank >= 0) : [];
  if (!isList || new Set(receivers).size < receivers.length) {
    const expected = `a list of ${size} different ranks of '${axis}', or -1 for none`;
    throw unfit('sendRecv', 'destination', destination, option.required({ fits, expected }));
  }
  return new Tensor(build.sendRecv(x.node, params, destination));
}

/**
 * invariant -> varying: this rank's part of a value that all ranks have in common. Its gradient is an all-gather,
 * which sends half the bytes of the all-reduce for a slice of a `reinterpret` value. Shape: [.., size*D, ..] -> [..,
 * D, ..].
 */
export function localChunk(x: Tensor, axis: string, dim: number): Tensor {
  requireTensors('localChunk', { x });
  return new Tensor(
    build.localChunk(x.node, axisParams(axis), normalizeDim('localChunk', dim, x.ndim)),
  );
}

/**
 * Changes the axis type of a value without moving data: invariant -> replicate (Megatron's f), replicate -> varying or
 * partial, varying -> partial. Throws ConfigError for other changes, which need a collective. Shape: N -> N.
 */
export function reinterpret(x: Tensor, axis: string, from: AxisType, to: AxisType): Tensor {
  requireTensors('reinterpret', { x });
  return new Tensor(build.reinterpret(x.node, axisParams(axis), from, to));
}
