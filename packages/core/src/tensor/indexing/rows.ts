import { cast, div, equal, logicalNot, mul, offset, sub } from '../../graph/ops/elementwise.ts';
import { gather, indexSelect, scatter, scatterAdd } from '../../graph/ops/index-ops.ts';
import { constant, constantLike } from '../../graph/ops/leaf.ts';
import { concat, expandTo, reshape, sliceDim, sum } from '../../graph/ops/movement.ts';
import { argSort, cumsum } from '../../graph/ops/reduce.ts';
import { takeRows } from '../../graph/ops/graph-ops.ts';
import type { Node } from '../../graph/node.ts';
import { broadcastShapes, elementCount } from '../../base/shape.ts';

/**
 * torch.nonzero: the places of elements that are not 0, in order. Each row of the i32 result has the indices of one
 * place, one for each dim. Shape: x N -> [count, dims of N].
 */
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

/** Takes the elements where a mask is true, in order. Shape: x N, mask bool N', broadcast -> [count]. */
export function maskedSelect(x: Node, mask: Node): Node {
  const shape = broadcastShapes('maskedSelect', x.shape, mask.shape);
  const flat = [elementCount(shape)];
  const places = truePlaces(reshape(expandTo(mask, shape), flat));
  return indexSelect(reshape(expandTo(x, shape), flat), 0, places);
}

/**
 * Takes each different element once, in ascending order. Each NaN counts as a different element. Shape: x N -> [count].
 */
export function unique(x: Node): Node {
  if (elementCount(x.shape) === 0) return reshape(x, [0]);
  return firstOfRuns(x, runsOf(x));
}

/**
 * Returns the elements that `unique` returns, the place of each element of x among them, and how often each occurs.
 * Shape: x N -> [count], i32 N, i32 [count].
 */
export function uniqueWithCounts(x: Node): Record<'values' | 'inverse' | 'counts', Node> {
  const size = elementCount(x.shape);
  const zeros = constant(0, [size], 'i32');
  if (size === 0) return { values: unique(x), inverse: reshape(zeros, x.shape), counts: zeros };
  const found = runsOf(x);
  const runs = offset(cumsum(cast(found.isFirst, 'i32'), 0), -1);
  const counts = scatterAdd(zeros, 0, runs, constant(1, [size], 'i32'), null);
  return {
    values: firstOfRuns(x, found),
    inverse: reshape(scatter(zeros, 0, found.order, runs, null), x.shape),
    counts: takeRows(counts, found.count),
  };
}

function firstOfRuns(x: Node, { sorted, isFirst, count }: Runs): Node {
  return cast(indexSelect(sorted, 0, truePlaces(isFirst, count)), x.dtype);
}

/** The sorted elements of a tensor, divided into runs of equal elements. */
interface Runs {
  /** The places of the elements in ascending order. Shape: i32 [N elements]. */
  readonly order: Node;
  readonly sorted: Node;
  /** Whether a sorted element begins a run: it is not equal to the element before. Shape: bool [N elements]. */
  readonly isFirst: Node;
  /** The number of runs. Shape: i32 []. */
  readonly count: Node;
}

/** Sorts a tensor and finds its runs. Shape: x N, not empty. */
function runsOf(x: Node): Runs {
  const flat = reshape(x, [elementCount(x.shape)]);
  const numbers = x.dtype === 'bool' ? cast(flat, 'i32') : flat;
  const order = argSort(numbers, 0);
  const sorted = gather(numbers, 0, order, null);
  const last = elementCount(x.shape) - 1;
  const isOther = logicalNot(equal(sliceDim(sorted, 0, 1, last + 1), sliceDim(sorted, 0, 0, last)));
  const isFirst = concat([constant(1, [1], 'bool'), isOther], 0);
  return { order, sorted, isFirst, count: sum(cast(isFirst, 'i32'), [0]) };
}

function notZero(x: Node): Node {
  const flat = reshape(x, [elementCount(x.shape)]);
  return flat.dtype === 'bool' ? flat : logicalNot(equal(flat, constantLike(flat, 0)));
}

/** The places of the true elements of a mask, in order. Shape: mask bool [N], count i32 [] -> i32 [count]. */
export function truePlaces(mask: Node, count: Node = sum(cast(mask, 'i32'), [0])): Node {
  // The sort is stable and moves true elements to the front.
  const order = argSort(cast(logicalNot(mask), 'i32'), 0);
  return takeRows(order, count);
}
