import {
  checkOptions,
  currentSession,
  type Layout,
  option,
  requireTensors,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import { DistributedTensor } from './distributed-tensor.ts';
import { axisSize } from '../layout/axis-size.ts';
import { requireLayout } from '../layout/require-layout.ts';

const shapeRules = { shape: option.required(option.listOf(option.count)) };

/**
 * Makes a distributed tensor from a tensor that all ranks have. Each rank keeps its part. The forward pass sends
 * nothing, and the backward pass gathers the gradient of the whole from the parts. For a partial layout, the first rank
 * of the axis keeps the values.
 */
export function distributeTensor(tensor: Tensor, layout: Layout): DistributedTensor {
  requireTensors('distributeTensor', { tensor });
  requireLayout('distributeTensor', layout);
  const dims = tensor.shape.map(() => []);
  const whole = { shape: tensor.shape, layout: { dims, partial: [] }, local: tensor };
  return new DistributedTensor(whole).redistribute(layout);
}

/**
 * Makes a distributed tensor from the parts of the ranks, without changing them. `shape` is that of the whole;
 * without it, all parts must be as large as this one. Values that the layout says to be equal on ranks must be
 * equal.
 */
export function fromLocal(local: Tensor, layout: Layout, shape?: Shape): DistributedTensor {
  requireTensors('fromLocal', { local });
  requireLayout('fromLocal', layout);
  if (shape !== undefined) checkOptions('fromLocal', { shape }, shapeRules);
  const { axes } = currentSession().mesh;
  const even = local.shape.map((size, dim) =>
    (layout.dims[dim] ?? []).reduce((product, axis) => product * axisSize(axes, axis), size),
  );
  return new DistributedTensor({ shape: shape ?? even, layout, local });
}
