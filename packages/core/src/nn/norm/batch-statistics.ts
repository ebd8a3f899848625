import { axisOf } from '../../mesh.ts';
import { currentSession } from '../../rank.ts';
import { sizeAt } from '../../base/shape.ts';
import { allReduce, reinterpret } from '../../tensor/collectives.ts';
import { concat, full } from '../../tensor/create.ts';
import { noGrad } from '../../graph/create-node.ts';
import type { Tensor } from '../../tensor/tensor.ts';

/** The statistics of all items of a batch for each channel. Shape: each [channels], count [1]. */
export interface BatchStatistics {
  readonly mean: Tensor;
  /** The number of values of each channel. */
  readonly count: Tensor;
  readonly variance: Tensor;
  /** The variance with the divisor n - 1. */
  readonly unbiased: Tensor;
}

/** The number of ranks that have a part of the batch. Throws ConfigError if the mesh has axes, but not this one. */
export function ranksOf(axis: string | null): number {
  const { mesh } = currentSession();
  return axis === null || mesh.axes.length === 0 ? 1 : axisOf(mesh, axis).size;
}

/** The statistics of this rank's batch. Shape: x f32 [N, channels, ...]. */
export function ownStatistics(x: Tensor): BatchStatistics {
  const count = valuesPerChannel(x);
  const mean = x.mean(itemDims(x));
  const variance = x.sub(perChannel(mean, x)).square().mean(itemDims(x));
  const unbiased = variance.mul(count / Math.max(1, count - 1));
  return { mean, count: full([1], count), variance, unbiased };
}

/**
 * The statistics of the batches of all ranks of an axis together. The batches may differ in size. The cost is two
 * all-reduces of a few numbers for each channel. This is a collective of the graph. Shape: x f32 [N, channels, ...].
 */
export function sharedStatistics(x: Tensor, axis: string): BatchStatistics {
  const channels = sizeAt(x.shape, 1);
  const own = reinterpret(full([1], valuesPerChannel(x)), axis, 'replicate', 'varying');
  const sums = allReduce(concat([x.sum(itemDims(x)), own]), axis);
  const count = sums.slice(0, channels).detach();
  const mean = sums.slice(0, 0, channels).div(count);
  const squares = x.sub(perChannel(mean, x)).square().sum(itemDims(x));
  const sum = allReduce(squares, axis);
  return { mean, count, variance: sum.div(count), unbiased: sum.div(count.sub(1)) };
}

/** The statistics of two batches together (Chan, Golub, LeVeque 1983), without gradients. */
export function togetherWith(first: BatchStatistics, second: BatchStatistics): BatchStatistics {
  return noGrad(() => {
    const count = first.count.add(second.count);
    const apart = second.mean.sub(first.mean);
    const mean = first.mean.add(apart.mul(second.count.div(count)));
    const between = apart.square().mul(first.count.mul(second.count).div(count));
    const within = first.variance.mul(first.count).add(second.variance.mul(second.count));
    const sum = within.add(between);
    return { mean, count, variance: sum.div(count), unbiased: sum.div(count.sub(1)) };
  });
}

/**
 * Reshapes a value for each channel so that it broadcasts with x. Shape: value [channels], x [N, channels, ...] ->
 * [channels, 1, ...].
 */
export function perChannel(value: Tensor, x: Tensor): Tensor {
  return value.reshape([value.numel, ...x.shape.slice(2).map(() => 1)]);
}

/** The number of values that each channel has. Shape: x [N, channels, ...]. */
export function valuesPerChannel({ shape, numel }: Tensor): number {
  return numel / Math.max(1, sizeAt(shape, 1));
}

/** All dims but that of the channels. */
function itemDims({ shape }: Tensor): number[] {
  return shape.map((_, dim) => dim).filter((dim) => dim !== 1);
}
