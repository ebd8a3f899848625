import {
  abs,
  div,
  equal,
  exp,
  less,
  log,
  mul,
  offset,
  pow,
  scale,
  sub,
  where,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import type { Node } from '../../graph/node.ts';
import { withSlope } from '../own-gradient.ts';
import { inFloat } from './in-float.ts';
import { roundHalfToEven } from './rounding.ts';

// These functions compute in floats. Shape: N -> N.

/**
 * log(1 + x), which is also accurate for small x. The rounding of 1 + x loses digits of x, and the factor x / ((1 + x)
 * - 1) corrects the result for it (Higham 2002, 1.14.1).
 */
export function log1p(x: Node): Node {
  const value = (wide: Node): Node => {
    const sum = offset(wide, 1);
    const one = constantLike(wide, 1);
    const corrected = mul(log(sum), div(wide, sub(sum, one)));
    // For x from 2^24 on, 1 + x rounds to x and no correction is needed. Infinity would even be divided by itself.
    const large = where(equal(sum, wide), log(sum), corrected);
    return where(equal(sum, one), wide, large);
  };
  return inFloat(x, (wide) => withSlope(wide, value, (gy, at) => div(gy, offset(at, 1))));
}

/** exp(x) - 1, which is also accurate where exp(x) is near 1. */
export function expm1(x: Node): Node {
  const value = (wide: Node): Node => {
    const power = exp(wide);
    const one = constantLike(wide, 1);
    const rest = sub(power, one);
    const corrected = where(equal(power, one), wide, mul(rest, div(wide, log(power))));
    return where(less(abs(wide), constantLike(wide, 0.5)), corrected, rest);
  };
  return inFloat(x, (wide) => withSlope(wide, value, (gy, _, y) => mul(gy, offset(y, 1))));
}

/** The logarithm to base 2. It is exact for powers of 2. */
export function log2(x: Node): Node {
  const value = (wide: Node): Node => {
    const rounded = scale(log(wide), Math.LOG2E);
    const whole = roundHalfToEven(rounded);
    // The quotient of subnormal numbers is NaN on devices that take them for 0.
    const share = div(wide, pow(constantLike(wide, 2), whole));
    return where(equal(share, constantLike(wide, 1)), whole, rounded);
  };
  return inFloat(x, (wide) => withSlope(wide, value, (gy, at) => div(gy, scale(at, Math.LN2))));
}

export function exp2(x: Node): Node {
  const value = (wide: Node): Node => pow(constantLike(wide, 2), wide);
  return inFloat(x, (wide) => withSlope(wide, value, (gy, _, y) => mul(gy, scale(y, Math.LN2))));
}
