import {
  add,
  less,
  lessEqual,
  logicalAnd,
  maximum,
  minimum,
  mul,
  offset,
  scale,
  sub,
  tanh,
  where,
} from '../../graph/ops/elementwise.ts';
import { sigmoid, softplus } from '../../graph/ops/activations.ts';
import { constantLike } from '../../graph/ops/leaf.ts';
import { floats, requireDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { withSlope } from '../own-gradient.ts';
import { expm1 } from './exponential.ts';
import { inFloat } from './in-float.ts';

// These activations of torch.nn.functional are composed of other ops. Shape: N -> N.

/** x for x above 0, else negativeSlope * x. */
export function leakyRelu(x: Node, negativeSlope = 0.01): Node {
  requireDType('leakyRelu', x, floats);
  return inFloat(x, (wide) => where(isPositive(wide), wide, scale(wide, negativeSlope)));
}

/** x for x above 0, else alpha * (exp(x) - 1). */
export function elu(x: Node, alpha = 1): Node {
  requireDType('elu', x, floats);
  const value = (wide: Node): Node => where(isPositive(wide), wide, scale(expm1(wide), alpha));
  const slope = (gy: Node, at: Node, y: Node): Node =>
    where(lessEqual(at, constantLike(at, 0)), mul(gy, offset(y, alpha)), gy);
  return inFloat(x, (wide) => withSlope(wide, value, slope));
}

/** x * tanh(softplus(x)). */
export function mish(x: Node): Node {
  requireDType('mish', x, floats);
  const value = (wide: Node): Node => mul(wide, tanh(softplus(wide)));
  const slope = (gy: Node, at: Node): Node => {
    const share = tanh(softplus(at));
    const rise = mul(sub(constantLike(share, 1), mul(share, share)), sigmoid(at));
    return mul(gy, add(share, mul(at, rise)));
  };
  return inFloat(x, (wide) => withSlope(wide, value, slope));
}

/** Limits elements to [low, high]. The gradient is 0 at both bounds. */
export function hardtanh(x: Node, low = -1, high = 1): Node {
  requireDType('hardtanh', x, floats);
  const bound = (at: Node, value: number): Node => constantLike(at, value);
  const value = (wide: Node): Node => minimum(maximum(wide, bound(wide, low)), bound(wide, high));
  const slope = (gy: Node, at: Node): Node => {
    const isInside = logicalAnd(less(bound(at, low), at), less(at, bound(at, high)));
    const isOrdered = lessEqual(at, at);
    // A NaN is not between the bounds, but the gradient still passes through it.
    return where(logicalAnd(isOrdered, isInside), gy, where(isOrdered, constantLike(gy, 0), gy));
  };
  return inFloat(x, (wide) => withSlope(wide, value, slope));
}

function isPositive(x: Node): Node {
  return less(constantLike(x, 0), x);
}
