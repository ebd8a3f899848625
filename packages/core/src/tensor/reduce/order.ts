import { cast, equal, logicalNot, where } from '../../graph/ops/elementwise.ts';
import { gather } from '../../graph/ops/index-ops.ts';
import { constant, constantLike } from '../../graph/ops/leaf.ts';
import { reshape, sliceDim, sum } from '../../graph/ops/movement.ts';
import * as reduce from '../../graph/ops/reduce.ts';
import { shapeFault } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions, requireIntegers } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { argMax, oneDim, type ReduceOptions, reduceRules } from '../reductions.ts';

/** Elements, and the index of each along the dim. */
export interface NodesWithIndices {
  readonly values: Node;
  /** The dtype is i32. */
  readonly indices: Node;
}

/** Options of `sort` and `argSort`. */
export interface SortOptions {
  /** Whether the largest element comes first. Default: false. */
  readonly descending?: boolean;
}

/** Options of `topK`. */
export interface TopKOptions {
  /** The dim along which elements are compared. Default: -1. */
  readonly dim?: number;
  /** Whether to take the largest elements, or the smallest. Default: true. */
  readonly largest?: boolean;
}

const sortRules: OptionRules<SortOptions> = { descending: option.flag };
const topKRules: OptionRules<TopKOptions> = {
  dim: option.integer(Number.MIN_SAFE_INTEGER),
  largest: option.flag,
};

/** The indices of the elements in ascending order. Equal elements keep their order. Shape: N -> i32 N. */
export function argSort(x: Node, dim = -1, options: SortOptions = {}): Node {
  checkOptions('argSort', options, sortRules);
  return orderOf('argSort', x, dim, options.descending === true).indices;
}

/** The elements in order, and their indices. Equal elements keep their order. Shape: N -> N, i32 N. */
export function sort(x: Node, dim = -1, options: SortOptions = {}): NodesWithIndices {
  checkOptions('sort', options, sortRules);
  return orderOf('sort', x, dim, options.descending === true);
}

/**
 * The k largest or smallest elements in order, and their indices. Shape: [.., D, ..] -> [.., k, ..], i32 [.., k, ..].
 */
export function topK(x: Node, k: number, options: TopKOptions = {}): NodesWithIndices {
  checkOptions('topK', options, topKRules);
  requireIntegers('topK', { k }, 0);
  const { dim = -1, largest = true } = options;
  const d = oneDim('topK', x, dim) ?? 0;
  const size = x.shape[d] ?? 1;
  if (k > size) {
    throw shapeFault(
      'topK',
      [x],
      `${size} elements along dim ${dim}, of which ${k} are asked`,
      `Ask for at most ${size}`,
    );
  }
  if (x.shape.length === 0) return { values: x, indices: constant(0, [], 'i32') };
  const order = sliceDim(placesInOrder(x, d, largest), d, 0, k);
  return { values: taken(x, d, order), indices: order };
}

/**
 * The median and its index. Of two elements in the middle it is the lower one. It is NaN if there is one. Shape: N -> N
 * without dim, i32 N without dim.
 */
export function median(x: Node, dim: number, options: ReduceOptions = {}): NodesWithIndices {
  checkOptions('median', options, reduceRules);
  const d = oneDim('median', x, dim);
  if (d === undefined) return { values: x, indices: constant(0, [], 'i32') };
  const size = sizeAt(x.shape, d);
  if (size === 0) throw nothing('median', x, dim);
  const order = placesInOrder(x, d, false);
  const numbers = cast(equal(x, x), 'i32');
  const count = reduce.keepDims(sum(numbers, [d]), x.shape, [d]);
  // NaN come last in the order, so the first NaN stands right behind all numbers.
  const hasNaN = logicalNot(equal(count, constantLike(count, size)));
  const middle = where(hasNaN, count, constantLike(count, Math.floor((size - 1) / 2)));
  return without(x, d, gather(order, d, middle), options);
}

/**
 * The maximum or minimum and its index, which is the first of equal ones. Shape: N -> N without dim, i32 N without dim.
 */
export function extremeWithIndices(
  op: 'maxWithIndices' | 'minWithIndices',
  x: Node,
  dim: number,
  options: ReduceOptions = {},
): NodesWithIndices {
  checkOptions(op, options, reduceRules);
  const d = oneDim(op, x, dim);
  if (d === undefined) return { values: x, indices: constant(0, [], 'i32') };
  if (sizeAt(x.shape, d) === 0) throw nothing(op, x, dim);
  const compared = x.dtype === 'bool' ? cast(x, 'i32') : x;
  const places = reduce.argMax(op === 'maxWithIndices' ? compared : reduce.mirrored(compared), d);
  return without(x, d, reduce.keepDims(places, x.shape, [d]), options);
}

/** The index of the first minimum, or of the first NaN. Shape: N -> i32 N without dim. */
export function argMin(x: Node, dim: number | undefined, options: ReduceOptions = {}): Node {
  return argMax(reduce.mirrored(x), dim, options, 'argMin');
}

function orderOf(op: string, x: Node, dim: number, descending: boolean): NodesWithIndices {
  const d = oneDim(op, x, dim);
  if (d === undefined) return { values: x, indices: constant(0, [], 'i32') };
  const indices = placesInOrder(x, d, descending);
  return { values: taken(x, d, indices), indices };
}

function placesInOrder(x: Node, dim: number, descending: boolean): Node {
  return reduce.argSort(x.dtype === 'bool' ? cast(x, 'i32') : x, dim, descending);
}

function taken(x: Node, dim: number, places: Node): Node {
  return gather(x, dim, places, null);
}

/** Takes the elements at `places`, whose size along `dim` is 1. Removes the dim unless keepDim is set. */
function without(x: Node, dim: number, places: Node, { keepDim }: ReduceOptions): NodesWithIndices {
  const values = taken(x, dim, places);
  if (keepDim === true) return { values, indices: places };
  const shape = x.shape.toSpliced(dim, 1);
  return { values: reshape(values, shape), indices: reshape(places, shape) };
}

function nothing(op: string, x: Node, dim: number): Error {
  return shapeFault(
    op,
    [x],
    `no element along dim ${dim}`,
    'Use a tensor with at least one element there',
  );
}
