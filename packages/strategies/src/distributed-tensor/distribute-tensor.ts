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
import { samePartsOnly } from './same-parts.ts';

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
 * Makes a distributed tensor from the parts of the ranks, without changing them. Values that the layout says to be
 * equal on ranks must be equal. `shape` is that of the whole. Without it, all parts must be as large as this one. The
 * ranks then compare their dtypes, shapes and layouts by a small message over each axis of the mesh. If they differ,
 * what is computed from the tensor rejects with CollectiveMismatchError, on every rank. With `shape`, nothing is sent,
 * and a part of another size is a LayoutError on the rank that has it.
 */
export function fromLocal(local: Tensor, layout: Layout, shape?: Shape): DistributedTensor {
  requireTensors('fromLocal', { local });
  requireLayout('fromLocal', layout);
  if (shape !== undefined) checkOptions('fromLocal', { shape }, shapeRules);
  const { axes } = currentSession().mesh;
  const even = local.shape.map((size, dim) =>
    (layout.dims[dim] ?? []).reduce((product, axis) => product * axisSize(axes, axis), size),
  );
  if (shape !== undefined) return new DistributedTensor({ shape, layout, local });
  const placed = { shape: even, layout, local };
  return new DistributedTensor({ ...placed, compared: samePartsOnly(local, layout) });
}
