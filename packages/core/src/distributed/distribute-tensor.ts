import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import { currentSession } from '../rank.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';
import { requireTensors } from '../tensor/check-arguments.ts';
import { Tensor } from '../tensor/tensor.ts';
import { checkLayout } from './check-layout.ts';
import { distributedNode } from './distributed-value.ts';
import { replicated } from '../layout/layout.ts';
import { axisSize } from './axis-size.ts';
import { requireLayout } from './require-layout.ts';
import { samePartsOnly } from './same-parts.ts';

const shapeRules = { shape: option.required(option.listOf(option.count)) };

/**
 * Makes a distributed tensor from a tensor that all ranks have, as torch.distributed.tensor.distribute_tensor does. Each
 * rank keeps its part. The forward pass sends nothing, and the backward pass gathers the gradient of the whole from the
 * parts. For a partial layout, the first rank of the axis keeps the values.
 */
export function distributeTensor(tensor: Tensor, layout: Layout): Tensor {
  requireTensors('distributeTensor', { tensor });
  requireLayout('distributeTensor', layout);
  const { shape, node } = tensor;
  if (node.distributed !== null) return tensor.redistribute(layout);
  return new Tensor(distributedNode(shape, replicated(shape), node)).redistribute(layout);
}

/**
 * Makes a distributed tensor from the parts of the ranks, without changing them. Values that the layout says to be
 * equal on ranks must be equal. `shape` is that of the whole. Without it, all parts must be as large as this one. The
 * ranks then compare their dtypes, shapes and layouts by a small message over each axis of the mesh. If they differ,
 * what is computed from the tensor rejects with CollectiveMismatchError, on every rank. With `shape`, nothing is sent,
 * and a part of another size is a LayoutError on the rank that has it.
 */
export function fromLocal(local: Tensor, layout: Layout, shape?: Shape): Tensor {
  requireTensors('fromLocal', { local });
  requireLayout('fromLocal', layout);
  if (shape !== undefined) checkOptions('fromLocal', { shape }, shapeRules);
  const { axes } = currentSession().mesh;
  const even = local.shape.map((size, dim) =>
    (layout.dims[dim] ?? []).reduce((product, axis) => product * axisSize(axes, axis), size),
  );
  checkLayout(layout, shape ?? even, axes);
  const compared = shape === undefined ? samePartsOnly(local, layout) : local;
  return new Tensor(distributedNode(shape ?? even, layout, compared.node));
}
