import { kindOf } from '../../base/dtype-kind.ts';
import {
  div,
  equal,
  floor,
  less,
  logicalAnd,
  logicalOr,
  mul,
  offset,
  scale,
  sub,
  truncate,
  where,
  withNumber,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { withSlope } from '../own-gradient.ts';
import { inFloat } from './in-float.ts';

/** Rounds to the nearest whole number. Halves go to the even one. Shape: N -> N. */
export function roundHalfToEven(x: Node): Node {
  const below = floor(x);
  const rest = sub(x, below);
  const half = constantLike(x, 0.5);
  const isOdd = less(scale(floor(scale(below, 0.5)), 2), below);
  const isUp = logicalOr(less(half, rest), logicalAnd(equal(rest, half), isOdd));
  const rounded = where(isUp, offset(below, 1), below);
  const zero = constantLike(x, 0);
  // The product is 0 with the sign of x, so that -0.3 becomes -0.
  return where(equal(rounded, zero), mul(x, zero), rounded);
}

/** Rounds to `decimals` places behind the point, or before it for negative ones. The gradient is 0. Shape: N -> N. */
export function round(x: Node, decimals: number): Node {
  if (decimals !== 0) requireDType('round to decimals', x, floats);
  if (kindOf(x.dtype) === 'int') return x;
  const unit = 10 ** Math.abs(decimals);
  const value = (wide: Node): Node => {
    if (decimals === 0) return roundHalfToEven(wide);
    return decimals > 0
      ? withNumber(div, roundHalfToEven(scale(wide, unit)), unit)
      : scale(roundHalfToEven(withNumber(div, wide, unit)), unit);
  };
  return inFloat(x, (wide) => withSlope(wide, value, flat));
}

/** Rounds towards zero. The gradient is 0. Shape: N -> N. */
export function trunc(x: Node): Node {
  return kindOf(x.dtype) === 'int' ? x : inFloat(x, (wide) => withSlope(wide, truncate, flat));
}

function flat(gradient: Node): Node {
  return constantLike(gradient, 0);
}
