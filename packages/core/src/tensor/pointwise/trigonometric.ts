import {
  abs,
  add,
  atan as arcTangent,
  cos,
  div,
  equal,
  exp,
  less,
  logicalAnd,
  logicalOr,
  mul,
  neg,
  offset,
  scale,
  sin,
  sqrt,
  square,
  sub,
  where,
} from '../../graph/ops/elementwise.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import type { Node } from '../../graph/node.ts';
import { inSteps, type NodeOrNumber } from '../arithmetic.ts';
import { withOwnGradient, withSlope } from '../own-gradient.ts';
import { expm1 } from './exponential.ts';
import { inFloat } from './in-float.ts';

// These functions compute in floats. Shape: N -> N.

export function reciprocal(x: Node): Node {
  return inFloat(x, (wide) => div(constantLike(wide, 1), wide));
}

export function tan(x: Node): Node {
  const value = (wide: Node): Node => div(sin(wide), cos(wide));
  return inFloat(x, (wide) => withSlope(wide, value, (gy, _, y) => mul(gy, offset(square(y), 1))));
}

export function asin(x: Node): Node {
  const value = (wide: Node): Node => arcTangent(div(wide, coside(wide)));
  return inFloat(x, (wide) => withSlope(wide, value, (gy, at) => div(gy, coside(at))));
}

export function acos(x: Node): Node {
  const value = (wide: Node): Node => {
    const one = constantLike(wide, 1);
    return scale(arcTangent(sqrt(div(sub(one, wide), offset(wide, 1)))), 2);
  };
  return inFloat(x, (wide) => withSlope(wide, value, (gy, at) => neg(div(gy, coside(at)))));
}

export function atan(x: Node): Node {
  return inFloat(x, arcTangent);
}

/** The angle of the point (x, y) in all four quadrants. y and x broadcast. Shape: y N, x N' -> broadcast(N, N'). */
export function atan2(y: Node, x: NodeOrNumber): Node {
  const compute = (up: Node, right: Node): Node =>
    withOwnGradient(
      [up, right],
      () => angle(up, right),
      (gradient, [over = up, along = right]) => {
        const distance = add(square(over), square(along));
        const isOrigin = equal(distance, constantLike(distance, 0));
        // The origin has no direction. As in PyTorch, the gradient is 0 there.
        const share = where(isOrigin, constantLike(gradient, 0), div(gradient, distance));
        return [mul(share, along), neg(mul(share, over))];
      },
    );
  return inSteps('atan2', y, x, compute, 'float');
}

export function sinh(x: Node): Node {
  return inFloat(x, (wide) => withSlope(wide, sinhOf, (gy, at) => mul(gy, cosh(at))));
}

export function cosh(x: Node): Node {
  const value = (wide: Node): Node => {
    const root = exp(scale(abs(wide), 0.5));
    return add(mul(scale(root, 0.5), root), div(constantLike(root, 0.5), square(root)));
  };
  return inFloat(x, (wide) => withSlope(wide, value, (gy, at) => mul(gy, sinh(at))));
}

/** sqrt(1 - x²), without a loss of digits near 1. */
function coside(x: Node): Node {
  return sqrt(mul(sub(constantLike(x, 1), x), offset(x, 1)));
}

/**
 * Computes sinh. The factor exp(x / 2) is applied twice, because exp(x) overflows for a smaller x than exp(x) / 2 does.
 */
function sinhOf(x: Node): Node {
  const size = abs(x);
  const small = expm1(size);
  const near = scale(add(small, div(small, offset(small, 1))), 0.5);
  const root = exp(scale(size, 0.5));
  const far = sub(mul(scale(root, 0.5), root), div(constantLike(root, 0.5), square(root)));
  const result = where(less(size, constantLike(x, 1)), near, far);
  return where(less(x, constantLike(x, 0)), neg(result), result);
}

function angle(y: Node, x: Node): Node {
  const size = (z: Node): Node => constantLike(z, Number.POSITIVE_INFINITY);
  const bothInfinite = logicalAnd(equal(abs(y), size(y)), equal(abs(x), size(x)));
  const bothZero = logicalAnd(equal(y, constantLike(y, 0)), equal(x, constantLike(x, 0)));
  const isLeft = isNegative(x);
  const ratio = abs(div(y, x));
  const known = where(bothInfinite, constantLike(ratio, 1), ratio);
  const slope = where(bothZero, constantLike(ratio, 0), known);
  const steep = arcTangent(slope);
  const upper = where(isLeft, sub(constantLike(steep, Math.PI), steep), steep);
  return where(isNegative(y), neg(upper), upper);
}

/** Whether a number is below 0. -0 counts as negative, too. */
function isNegative(x: Node): Node {
  const zero = constantLike(x, 0);
  const isMinusZero = logicalAnd(equal(x, zero), less(div(constantLike(x, 1), x), zero));
  return logicalOr(less(x, zero), isMinusZero);
}
