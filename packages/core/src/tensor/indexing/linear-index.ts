import {
  add,
  less,
  lessEqual,
  logicalAnd,
  offset,
  scale,
  where,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import { expandTo, reshape } from '../../graph/ops/movement.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import type { Node } from '../../graph/node.ts';
import { broadcastShapes, elementCount, sizeAt } from '../../base/shape.ts';
import type { Shape } from '../../spec/dtype.ts';
import { DTypeError } from '../../spec/errors.ts';

/**
 * Combines an index for each of the first dims of a shape to one index over these dims. Indices below 0 count from the
 * end of their dim. An index that is out of range in its own dim is out of range in the result. Shape: each i32,
 * broadcast to B -> i32 [B elements].
 */
export function linearIndex(
  op: string,
  indices: readonly Node[],
  sizes: Shape,
): { readonly index: Node; readonly shape: Shape } {
  for (const index of indices) {
    if (index.dtype === 'bool') throw maskFault(op, index.shape);
    requireIndexDType(op, index);
  }
  const shape = indices.reduce<Shape>((all, each) => broadcastShapes(op, all, each.shape), []);
  const [only] = indices;
  if (only !== undefined && indices.length === 1) {
    return { index: reshape(fromStart(only, sizeAt(sizes, 0)), [elementCount(shape)]), shape };
  }
  let linear: Node | null = null;
  let inRange: Node | null = null;
  indices.forEach((each, dim) => {
    const size = sizeAt(sizes, dim);
    const index = fromStart(expandTo(each, shape), size);
    const isInside = logicalAnd(
      lessEqual(constantLike(index, 0), index),
      less(index, constantLike(index, size)),
    );
    linear = linear === null ? index : add(scale(linear, size), index);
    inRange = inRange === null ? isInside : logicalAnd(inRange, isInside);
  });
  if (linear === null || inRange === null) throw new RangeError(`${op} without indices`);
  const checked: Node = where(inRange, linear, constantLike(linear, -1));
  return { index: reshape(checked, [elementCount(shape)]), shape };
}

function fromStart(index: Node, size: number): Node {
  return where(less(index, constantLike(index, 0)), offset(index, size), index);
}

function maskFault(op: string, shape: Shape): DTypeError {
  return new DTypeError(
    {
      asked: `${op} by a mask of shape [${shape.join(', ')}]`,
      found: 'a mask in the place of indices',
      todo: 'Write mask.where(values, x) or x.maskedFill(mask, value)',
    },
    { op, shape },
  );
}
