import {
  abs,
  add,
  div,
  equal,
  exp,
  log,
  mul,
  pow,
  scale,
  sign,
  sqrt,
  square,
  sub,
  where,
  withNumber,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import { expandReduced, sum } from '../../graph/ops/movement.ts';
import { widened } from '../../graph/ops/precision.ts';
import { keepDims, max, min } from '../../graph/ops/reduce.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { withOwnGradient, withSlope } from '../own-gradient.ts';
import { inFloat } from '../pointwise/in-float.ts';
import {
  type Dims,
  dimsOf,
  type ReduceOptions,
  reduceRules,
  variance,
  type VarianceOptions,
} from '../reductions.ts';

/** Options of `norm`. */
export interface NormOptions extends ReduceOptions {
  /**
   * The exponent. 0 counts the elements that are not 0, Infinity gives the largest absolute value, and
   * -Infinity the smallest. Default: 2.
   */
  readonly p?: number;
}

const normRules: OptionRules<NormOptions> = { ...reduceRules, p: option.number };

/** torch.linalg.vector_norm. Where the norm is 0, its gradient is 0. Shape: N -> N without dims. */
export function norm(x: Node, dims: Dims, options: NormOptions = {}): Node {
  checkOptions('norm', options, normRules);
  requireDType('norm', x, floats);
  const { p = 2 } = options;
  const list = dimsOf('norm', x, dims);
  const result = inFloat(widened(x), (wide) => normOf(wide, list, p));
  return options.keepDim === true ? keepDims(result, x.shape, list) : result;
}

/** torch.std: the square root of the variance. Where the result is 0, its gradient is 0. Shape: N -> N without dims. */
export function std(x: Node, dims: Dims, options: VarianceOptions = {}): Node {
  const root = (wide: Node): Node =>
    withSlope(variance(wide, dims, options), sqrt, (gy, _, y) =>
      whereNotZero(y, div(scale(gy, 0.5), y)),
    );
  requireDType('std', x, floats);
  return inFloat(widened(x), root);
}

/** log(sum(exp(x))), without overflow. Shape: N -> N without dims. */
export function logSumExp(x: Node, dims: Dims, options: ReduceOptions = {}): Node {
  checkOptions('logSumExp', options, reduceRules);
  const list = dimsOf('logSumExp', x, dims);
  const isEmpty = list.some((dim) => x.shape[dim] === 0);
  const value = (wide: Node): Node => {
    if (isEmpty) return log(sum(wide, list));
    const largest = max(wide, list);
    const infinite = equal(abs(largest), constantLike(largest, Number.POSITIVE_INFINITY));
    const shift = where(infinite, constantLike(largest, 0), largest);
    const total = sum(exp(sub(wide, expandReduced(shift, list, wide))), list);
    return add(log(total), shift);
  };
  const result = inFloat(widened(x), (wide) =>
    withSlope(wide, value, (gy, at, y) =>
      mul(spread(gy, at, list), exp(sub(at, spread(y, at, list)))),
    ),
  );
  return options.keepDim === true ? keepDims(result, x.shape, list) : result;
}

function normOf(x: Node, dims: readonly number[], p: number): Node {
  if (p === Number.POSITIVE_INFINITY) return max(abs(x), dims);
  if (p === Number.NEGATIVE_INFINITY) return min(abs(x), dims);
  const zero = constantLike(x, 0);
  if (p === 0) {
    const isZero = (at: Node): Node => equal(at, constantLike(at, 0));
    const count = (at: Node): Node => sum(where(isZero(at), zero, constantLike(at, 1)), dims);
    return withOwnGradient(
      [x],
      () => count(x),
      () => [null],
    );
  }
  if (p === 1) return sum(abs(x), dims);
  const value = (): Node =>
    p === 2
      ? sqrt(sum(square(x), dims))
      : withNumber(pow, sum(withNumber(pow, abs(x), p), dims), 1 / p);
  return withOwnGradient([x], value, (gradient, [at = x], y) => {
    const [all, norms] = [spread(gradient, at, dims), spread(y, at, dims)];
    if (p === 2) return [whereNotZero(norms, mul(at, div(all, norms)))];
    // For p < 1, the power has no derivative at elements that are 0.
    const share = pow(div(abs(at), norms), constantLike(at, p - 1));
    const slope = p < 1 ? whereNotZero(at, share) : share;
    return [whereNotZero(norms, mul(mul(all, sign(at)), slope))];
  });
}

function spread(reduced: Node, x: Node, dims: readonly number[]): Node {
  return expandReduced(reduced, dims, x);
}

function whereNotZero(x: Node, value: Node): Node {
  return where(equal(x, constantLike(x, 0)), constantLike(value, 0), value);
}
