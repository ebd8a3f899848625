import { cast, div, equal, logicalNot, mul, sub } from '../../graph/build/elementwise.ts';
import { indexSelect } from '../../graph/build/index-ops.ts';
import { constantLike } from '../../graph/build/leaf.ts';
import { concat, expandTo, reshape } from '../../graph/build/movement.ts';
import { argSort, sum } from '../../graph/build/reduce.ts';
import { createNode } from '../../graph/create-node.ts';
import { none, type Node } from '../../graph/node.ts';
import { broadcastShapes, elementCount } from '../../shape.ts';

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
