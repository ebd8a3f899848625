import { cast, div, equal, logicalNot, mul, sub } from '../../graph/build/elementwise.ts';
import { gather, indexSelect } from '../../graph/build/index-ops.ts';
import { constant, constantLike } from '../../graph/build/leaf.ts';
import { concat, expandTo, reshape, sliceDim } from '../../graph/build/movement.ts';
import { argSort, sum } from '../../graph/build/reduce.ts';
import { createNode } from '../../graph/create-node.ts';
import { none, type Node } from '../../graph/node.ts';
import { shapeFault } from '../../graph/infer-checks.ts';
import { broadcastShapes, elementCount, sameShape } from '../../shape.ts';

/** The first rows, as many as `count` says. Shape: x [N, ..], count i32 [] -> [count, ..]. */
export function takeRows(x: Node, count: Node): Node {
  return createNode('takeRows', none, [x, count]);
}

/** Shape: x [count, ..] -> [rows, ..]. */
export function fillRows(x: Node, rows: number): Node {
  return createNode('fillRows', { rows }, [x]);
}

/** Where elements are not 0, in order: i32, their dims one after the other. Shape: x N -> [count, dims of N]. */
export function nonzero(x: Node): Node {
  const places = truePlaces(notZero(x));
  const column = reshape(places, [...places.shape, 1]);
  let behind = elementCount(x.shape);
  const columns = x.shape.map((size) => {
    behind /= Math.max(size, 1);
    const index = div(column, constantLike(column, behind));
    const whole = constantLike(column, Math.max(size, 1));
    return sub(index, mul(div(index, whole), whole));
  });
  return concat(columns, 1);
}

/** The elements where a mask is true, in order. Shape: x N, mask bool N', broadcast -> [count]. */
export function maskedSelect(x: Node, mask: Node): Node {
  const shape = broadcastShapes('maskedSelect', x.shape, mask.shape);
  const flat = [elementCount(shape)];
  const places = truePlaces(reshape(expandTo(mask, shape), flat));
  return indexSelect(reshape(expandTo(x, shape), flat), 0, places);
}

/** Rows of the first dims where a mask of these is true, in order. Shape: x [A.., R..], mask bool [A..] -> [count, R..]. */
export function rowsWhere(x: Node, mask: Node): Node {
  const { length } = mask.shape;
  if (length === 0 || !sameShape(x.shape.slice(0, length), mask.shape)) {
    const todo = 'Use a mask of the shape of the tensor, or of its first dims';
    throw shapeFault('at by a mask', [x, mask], 'sizes that differ', todo);
  }
  const rows = reshape(x, [elementCount(mask.shape), ...x.shape.slice(length)]);
  return indexSelect(rows, 0, truePlaces(reshape(mask, [elementCount(mask.shape)])));
}

/** Each different element once, in ascending order; NaN is none that is equal. Shape: x N -> [count]. */
export function unique(x: Node): Node {
  const flat = reshape(x, [elementCount(x.shape)]);
  const numbers = x.dtype === 'bool' ? cast(flat, 'i32') : flat;
  if (elementCount(x.shape) === 0) return flat;
  const sorted = gather(numbers, 0, argSort(numbers, 0), null);
  const last = elementCount(x.shape) - 1;
  const isOther = logicalNot(equal(sliceDim(sorted, 0, 1, last + 1), sliceDim(sorted, 0, 0, last)));
  const isFirst = concat([constant(1, [1], 'bool'), isOther], 0);
  return cast(indexSelect(sorted, 0, truePlaces(isFirst)), x.dtype);
}

function notZero(x: Node): Node {
  const flat = reshape(x, [elementCount(x.shape)]);
  return flat.dtype === 'bool' ? flat : logicalNot(equal(flat, constantLike(flat, 0)));
}

/** The places of what is true, in order. Shape: mask bool [N] -> i32 [count]. */
function truePlaces(mask: Node): Node {
  // A stable order with what is true in front.
  const order = argSort(cast(logicalNot(mask), 'i32'), 0);
  return takeRows(order, sum(cast(mask, 'i32'), [0]));
}
