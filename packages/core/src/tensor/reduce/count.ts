import {
  add,
  cast,
  div,
  equal,
  floor,
  less,
  lessEqual,
  logicalAnd,
  maximum,
  minimum,
  mul,
  offset,
  scale,
  sub,
  where,
} from '../../graph/ops/elementwise.ts';
import { indexAdd, indexSelect } from '../../graph/ops/index-ops.ts';
import { constant, constantLike, iota } from '../../graph/ops/leaf.ts';
import { expandTo, reshape } from '../../graph/ops/movement.ts';
import { max, min } from '../../graph/ops/reduce.ts';
import { CallSite } from '../../graph/call-site.ts';
import { noGrad } from '../../graph/create-node.ts';
import { floats, requireDType, shapeFault } from '../../graph/infer-checks.ts';
import { requireIndexDType } from '../../graph/infer-indices.ts';
import type { Node } from '../../graph/node.ts';
import { elementCount, sameShape } from '../../base/shape.ts';
import { checkOptions, requireIntegers } from '../../base/check-options.ts';
import type { DType } from '../../spec/dtype.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** Options of `histogram`. */
export interface HistogramOptions {
  /** The number of bins. Default: 100. */
  readonly bins?: number;
  /**
   * The smallest and the largest value. Elements outside are not counted. Default: from the smallest to the
   * largest element.
   */
  readonly range?: readonly [number, number];
}

const histogramRules: OptionRules<HistogramOptions> = {
  bins: option.integer(1),
  range: {
    fits: (value): value is readonly [number, number] => isRange(value),
    expected: 'two finite numbers [low, high], of which the second one is larger',
  },
};

/**
 * torch.bincount: how often each number from 0 to length - 1 occurs, or the sum of the weights of its occurrences. A
 * run that meets another number rejects with IndexError. Shape: x i32 [N], weights [N] -> i32 [length], or the weights'
 * dtype.
 */
export function binCount(x: Node, length: number, weights: Node | null): Node {
  requireIntegers('binCount', { length }, 0);
  requireIndexDType('binCount', x);
  const terms = weights ?? constant(1, x.shape, 'i32');
  if (x.shape.length !== 1 || !sameShape(terms.shape, x.shape)) {
    const inputs = weights === null ? [x] : [x, weights];
    const found = weights === null ? 'a tensor of other than one dim' : 'weights of another shape';
    throw shapeFault('binCount', inputs, found, 'Use one dim, and a weight for each element');
  }
  const none = constant(0, [length], terms.dtype);
  return indexAdd(none, 0, x, terms, new CallSite('binCount'));
}

/**
 * Counts the elements in each of several equally wide bins. A bin includes its lower edge, and the last bin also its
 * upper edge. The counts have no gradient. Shape: N -> counts [bins], edges [bins + 1].
 */
export function histogram(x: Node, options: HistogramOptions = {}): { counts: Node; edges: Node } {
  checkOptions('histogram', options, histogramRules);
  requireDType('histogram', x, floats);
  const { bins = 100, range } = options;
  return noGrad(() => {
    const values = reshape(x, [elementCount(x.shape)]);
    const [low, high] = range === undefined ? extent(values) : givenRange(range, x.dtype);
    const edges = edgesOf(low, high, bins);
    const all = (end: Node): Node => expandTo(end, values.shape);
    const isInside = logicalAnd(lessEqual(all(low), values), lessEqual(values, all(high)));
    const share = div(sub(values, all(low)), all(sub(high, low)));
    const guess = floor(scale(where(isInside, share, constantLike(share, 0)), bins));
    const place = toBin(guess, values, edges, bins);
    const none = constant(0, [bins], x.dtype);
    return { counts: indexAdd(none, 0, place, cast(isInside, x.dtype), null), edges };
  });
}

/** Corrects the bin that the division gave. Its rounding may be off by one, and the edges are what counts. */
function toBin(guess: Node, values: Node, edges: Node, bins: number): Node {
  const bounded = (bin: Node): Node =>
    minimum(maximum(bin, constantLike(bin, 0)), constantLike(bin, bins - 1));
  const first = bounded(cast(guess, 'i32'));
  const isBelow = less(values, indexSelect(edges, 0, first, null));
  const isAbove = lessEqual(indexSelect(edges, 0, offset(first, 1), null), values);
  return bounded(sub(add(first, cast(isAbove, 'i32')), cast(isBelow, 'i32')));
}

/** Computes the edges. As in linspace, each half is computed from its own end. */
function edgesOf(low: Node, high: Node, bins: number): Node {
  const number = cast(iota([bins + 1], 0), low.dtype);
  const all = (end: Node): Node => expandTo(end, number.shape);
  const step = all(scale(sub(high, low), 1 / bins));
  const fromLow = add(all(low), mul(step, number));
  const fromHigh = sub(all(high), mul(step, sub(constantLike(number, bins), number)));
  return where(less(number, constantLike(number, (bins + 1) / 2)), fromLow, fromHigh);
}

/** The range from the smallest to the largest element. If they are equal, the range is widened to 1. */
function extent(values: Node): [Node, Node] {
  if (values.shape[0] === 0) {
    throw shapeFault('histogram', [values], 'no element to take the range of', 'Give a range');
  }
  const [low, high] = [min(values, [0]), max(values, [0])];
  const isFlat = equal(low, high);
  return [where(isFlat, offset(low, -0.5), low), where(isFlat, offset(high, 0.5), high)];
}

function givenRange([low, high]: readonly [number, number], dtype: DType): [Node, Node] {
  return [constant(low, [], dtype), constant(high, [], dtype)];
}

function isRange(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2 || !value.every(Number.isFinite)) return false;
  const [low, high]: readonly number[] = value;
  return low !== undefined && high !== undefined && low < high;
}
