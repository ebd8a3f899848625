import { computeDType, kindOf } from '../base/dtype-kind.ts';
import { cast, logicalNot } from '../graph/ops/elementwise.ts';
import * as movement from '../graph/ops/movement.ts';
import { widened } from '../graph/ops/precision.ts';
import * as reduce from '../graph/ops/reduce.ts';
import { floats, requireDType } from '../graph/infer-checks.ts';
import type { Node } from '../graph/node.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { describeValue, ShapeError } from '../spec/errors.ts';
import { elementCount, formatShape, normalizeDim, sizeAt } from '../base/shape.ts';
import { combine, divide } from './arithmetic.ts';
import { differentDims } from './different-dims.ts';

/** The dims to reduce: one dim, several, or all of them if it is undefined. */
export type Dims = number | readonly number[] | undefined;

/** Options of reductions, such as `sum`. */
export interface ReduceOptions {
  /** Whether reduced dims stay, with size 1. */
  readonly keepDim?: boolean;
}

/** Options of `variance` and `std`. */
export interface VarianceOptions extends ReduceOptions {
  /** The number that is subtracted from the number of elements before the division by it. Default: 1. */
  readonly correction?: number;
}

export const reduceRules: OptionRules<ReduceOptions> = { keepDim: option.flag };
const varianceRules: OptionRules<VarianceOptions> = { ...reduceRules, correction: option.number };

/** Integers below 64 bits and bools are added in i32 (PyTorch: int64). The sum wraps around. */
export function sum(x: Node, dims: Dims, options?: ReduceOptions): Node {
  return reduced('sum', counted(x), dims, movement.sum, options);
}

export function mean(x: Node, dims: Dims, options?: ReduceOptions): Node {
  requireDType('mean', x, floats);
  return reduced('mean', widened(x), dims, reduce.mean, options);
}

export function max(x: Node, dims: Dims, options?: ReduceOptions): Node {
  return orderedReduction('max', x, dims, reduce.max, options);
}

export function min(x: Node, dims: Dims, options?: ReduceOptions): Node {
  return orderedReduction('min', x, dims, reduce.min, options);
}

/** torch.var: divides by n - correction. It is computed in f32 if x has fewer bits. */
export function variance(x: Node, dims: Dims, options: VarianceOptions = {}): Node {
  checkOptions('variance', options, varianceRules);
  const { correction = 1, ...reduceOptions } = options;
  requireDType('variance', x, floats);
  const wide = cast(x, computeDType(x.dtype));
  const list = dimsOf('variance', wide, dims);
  const count = elementCount(list.map((dim) => sizeAt(x.shape, dim)));
  const centered = combine('sub', wide, mean(wide, list, { keepDim: true }));
  const squares = sum(combine('mul', centered, centered), list, reduceOptions);
  return cast(divide(squares, Math.max(0, count - correction)), widened(x).dtype);
}

/** The index of the first maximum along a dim. Without a dim, it is the index in the flattened tensor. */
export function argMax(
  x: Node,
  dim: number | undefined,
  options?: ReduceOptions,
  op: 'argMax' | 'argMin' = 'argMax',
): Node {
  if (options !== undefined) checkOptions(op, options, reduceRules);
  if (dim === undefined) {
    const place = reduce.argMax(movement.reshape(x, [elementCount(x.shape)]), 0);
    return options?.keepDim === true ? reduce.keepDims(place, x.shape, movement.allDims(x)) : place;
  }
  const d = oneDim(op, x, dim);
  if (d === undefined) return reduce.argMax(movement.reshape(x, [1]), 0);
  const result = reduce.argMax(x, d);
  return options?.keepDim === true ? reduce.keepDims(result, x.shape, [d]) : result;
}

/** Whether any element is not 0. The result is false if there are no elements. */
export function any(x: Node, dims: Dims, options?: ReduceOptions): Node {
  const found = reduced('any', cast(cast(x, 'bool'), 'i32'), dims, movement.sum, options);
  return cast(found, 'bool');
}

/** Whether no element is 0. The result is true if there are no elements. */
export function all(x: Node, dims: Dims, options?: ReduceOptions): Node {
  const failed = cast(logicalNot(cast(x, 'bool')), 'i32');
  return logicalNot(cast(reduced('all', failed, dims, movement.sum, options), 'bool'));
}

/** Running sums. Integers and bools are added in i32, as in `sum`. */
export function cumsum(x: Node, dim: number): Node {
  const d = oneDim('cumsum', x, dim);
  const wide = counted(x);
  return d === undefined ? wide : reduce.cumsum(wide, d);
}

/** Applies an op that works along the last dim along any dim. Shape: N -> N. */
export function alongDim(op: string, x: Node, dim = -1, build: (x: Node) => Node): Node {
  const d = oneDim(op, x, dim);
  if (d === undefined) return movement.reshape(build(movement.reshape(x, [1])), []);
  return reduce.alongLast(x, d, build);
}

/**
 * Returns the dim counted from the start, or undefined for a tensor without dims. Throws ShapeError if `dim` is not a
 * number, for example because the caller left it out.
 */
export function oneDim(op: string, x: Node, dim: unknown): number | undefined {
  if (typeof dim !== 'number') throw noDim(op, x, dim);
  return dimsOf(op, x, dim)[0];
}

/**
 * Returns the dims to reduce in ascending order. Throws ShapeError for a dim that is named twice. As in PyTorch, a
 * tensor without dims accepts dims 0 and -1. The list is then empty.
 */
export function dimsOf(op: string, x: Node, dims: Dims): number[] {
  const ndim = x.shape.length;
  if (dims === undefined) return movement.allDims(x);
  const list = typeof dims === 'number' ? [dims] : dims;
  if (!Array.isArray(list)) throw noDim(op, x, list);
  if (ndim === 0) {
    for (const dim of list) normalizeDim(op, dim, 1);
    return [];
  }
  return differentDims(op, x.shape, list).sort((a, b) => a - b);
}

function noDim(op: string, { shape }: Node, given: unknown): ShapeError {
  const asked = `${op} of shape ${formatShape(shape)}`;
  const last = `Write ${op}(-1) for the last dim`;
  if (given === undefined) {
    const todo = `${last}; for all elements in a row, flatten().${op}(0)`;
    return new ShapeError({ asked, found: 'no dim to do it along', todo }, { op, shape });
  }
  const named = typeof given === 'object' && given !== null && 'dim' in given ? given.dim : null;
  const isNumber = typeof named === 'number';
  return new ShapeError(
    {
      asked: `${asked} along ${isNumber ? `{ dim: ${named} }` : describeValue(given)}`,
      found: 'no number of a dim',
      todo: isNumber ? `Write ${op}(${named})` : last,
    },
    { op, shape },
  );
}

function reduced(
  op: string,
  x: Node,
  dims: Dims,
  build: (x: Node, dims: readonly number[]) => Node,
  options: ReduceOptions | undefined,
): Node {
  if (options !== undefined) checkOptions(op, options, reduceRules);
  const list = dimsOf(op, x, dims);
  const result = build(x, list);
  return options?.keepDim === true ? reduce.keepDims(result, x.shape, list) : result;
}

/** Reduces by order. Bools are compared as i32. */
function orderedReduction(...[op, x, dims, build, options]: Parameters<typeof reduced>): Node {
  const wide = x.dtype === 'bool' ? cast(x, 'i32') : x;
  return cast(reduced(op, wide, dims, build, options), x.dtype);
}

export function counted(x: Node): Node {
  return kindOf(x.dtype) === 'float' || x.dtype === 'i64' ? x : cast(x, 'i32');
}
