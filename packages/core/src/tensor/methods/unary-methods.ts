import { requireIntegers, unfit } from '../../base/check-options.ts';
import { kindOf } from '../../base/dtype-kind.ts';
import type { OptionRule } from '../../base/option-rules.ts';
import { requireDTypeName } from '../../dtype-name.ts';
import * as activations from '../../graph/ops/activations.ts';
import * as elementwise from '../../graph/ops/elementwise.ts';
import { detach } from '../../graph/ops/graph-ops.ts';
import type { DType } from '../../spec/dtype.ts';
import { asFloat, clamp, inverseSqrt } from '../arithmetic.ts';
import { requireApproximation, requireBound } from '../check-arguments.ts';
import type { TensorHandle } from '../handle.ts';
import { elu, hardtanh, leakyRelu, mish } from '../pointwise/activations.ts';
import { exp2, expm1, log1p, log2 } from '../pointwise/exponential.ts';
import { round, trunc } from '../pointwise/rounding.ts';
import * as tests from '../pointwise/tests.ts';
import { acos, asin, atan, cosh, reciprocal, sinh, tan } from '../pointwise/trigonometric.ts';
import { BinaryMethods } from './binary-methods.ts';

const halfOrLess: OptionRule<number> = {
  fits: (value): value is number => typeof value === 'number' && value >= 0 && value <= 0.5,
  expected: 'a number from 0 to 0.5',
};

/** Methods that give each element another value. Shape: N -> N. */
export abstract class UnaryMethods<T extends TensorHandle> extends BinaryMethods<T> {
  /** The elements with the other sign. Shape: N -> N. */
  neg(): T {
    return this.tensorOf(elementwise.neg(this.node));
  }
  /** The absolute values. The gradient at 0 is 0. Shape: N -> N. */
  abs(): T {
    return this.tensorOf(elementwise.abs(this.node));
  }
  /** -1, 0 or 1. The gradient is 0. Shape: N -> N. */
  sign(): T {
    return this.tensorOf(elementwise.sign(this.node));
  }
  /** e to the power of each element. Integers become f32. Shape: N -> N. */
  exp(): T {
    return this.tensorOf(elementwise.exp(asFloat(this.node)));
  }
  /** The natural logarithm. It is NaN below 0, and -Infinity at 0. Integers become f32. Shape: N -> N. */
  log(): T {
    return this.tensorOf(elementwise.log(asFloat(this.node)));
  }
  /** The square root. It is NaN below 0, and its gradient at 0 is Infinity. Integers become f32. Shape: N -> N. */
  sqrt(): T {
    return this.tensorOf(elementwise.sqrt(asFloat(this.node)));
  }
  /** 1 / sqrt(x). Integers become f32. Shape: N -> N. */
  rsqrt(): T {
    return this.tensorOf(inverseSqrt(this.node));
  }
  /** log(1 + x), which is accurate for small x, too. Shape: N -> N. */
  log1p(): T {
    return this.tensorOf(log1p(this.node));
  }
  /** exp(x) - 1, which is accurate for small x, too. Shape: N -> N. */
  expm1(): T {
    return this.tensorOf(expm1(this.node));
  }
  /** The logarithm to base 2. It is exact for powers of 2. Shape: N -> N. */
  log2(): T {
    return this.tensorOf(log2(this.node));
  }
  /** 2 to the power of each element. Integers become f32. Shape: N -> N. */
  exp2(): T {
    return this.tensorOf(exp2(this.node));
  }
  /** 1 / x. Integers become f32. Shape: N -> N. */
  reciprocal(): T {
    return this.tensorOf(reciprocal(this.node));
  }
  /** The sine of angles in radians. Integers become f32. Shape: N -> N. */
  sin(): T {
    return this.tensorOf(elementwise.sin(asFloat(this.node)));
  }
  /** The cosine of angles in radians. Integers become f32. Shape: N -> N. */
  cos(): T {
    return this.tensorOf(elementwise.cos(asFloat(this.node)));
  }
  /** The tangent of angles in radians. Integers become f32. Shape: N -> N. */
  tan(): T {
    return this.tensorOf(tan(this.node));
  }
  /** The angle from -π/2 to π/2 with this sine. It is NaN outside of [-1, 1]. Integers become f32. Shape: N -> N. */
  asin(): T {
    return this.tensorOf(asin(this.node));
  }
  /** The angle from 0 to π with this cosine. It is NaN outside of [-1, 1]. Integers become f32. Shape: N -> N. */
  acos(): T {
    return this.tensorOf(acos(this.node));
  }
  /** The angle from -π/2 to π/2 with this tangent. Integers become f32. Shape: N -> N. */
  atan(): T {
    return this.tensorOf(atan(this.node));
  }
  /** The hyperbolic sine. Integers become f32. Shape: N -> N. */
  sinh(): T {
    return this.tensorOf(sinh(this.node));
  }
  /** The hyperbolic cosine. Integers become f32. Shape: N -> N. */
  cosh(): T {
    return this.tensorOf(cosh(this.node));
  }
  /** The hyperbolic tangent. Integers become f32. Shape: N -> N. */
  tanh(): T {
    return this.tensorOf(elementwise.tanh(asFloat(this.node)));
  }
  /** The error function. Integers become f32. Shape: N -> N. */
  erf(): T {
    return this.tensorOf(elementwise.erf(asFloat(this.node)));
  }
  /** The largest whole number that is not above x. The gradient is 0. Shape: N -> N. */
  floor(): T {
    return kindOf(this.dtype) === 'int'
      ? this.tensorOf(this.node)
      : this.tensorOf(elementwise.floor(this.node));
  }
  /** The smallest whole number that is not below x. The gradient is 0. Shape: N -> N. */
  ceil(): T {
    return kindOf(this.dtype) === 'int'
      ? this.tensorOf(this.node)
      : this.tensorOf(elementwise.ceil(this.node));
  }
  /** Rounds to `decimals` places behind the point. Halves go to the even digit. The gradient is 0. Shape: N -> N. */
  round(decimals = 0): T {
    requireIntegers('round', { decimals });
    return this.tensorOf(round(this.node, decimals));
  }
  /** Rounds towards zero. The gradient is 0. Shape: N -> N. */
  trunc(): T {
    return this.tensorOf(trunc(this.node));
  }
  /** x * x. Bools become i32. Shape: N -> N. */
  square(): T {
    return this.dtype === 'bool' ? this.to('i32') : this.tensorOf(elementwise.square(this.node));
  }
  /** 1 / (1 + exp(-x)). Integers become f32. Shape: N -> N. */
  sigmoid(): T {
    return this.tensorOf(activations.sigmoid(asFloat(this.node)));
  }
  /** x above 0, else 0. The gradient at 0 is 0. Shape: N -> N. */
  relu(): T {
    if (kindOf(this.dtype) === 'int') return this.maximum(0);
    return this.tensorOf(activations.relu(this.node));
  }
  /** log(1 + exp(x)). Shape: N -> N. */
  softplus(): T {
    return this.tensorOf(activations.softplus(this.node));
  }
  /**
   * log(x / (1 - x)), the inverse of sigmoid. With eps, x is limited to [eps, 1 - eps] first, and its gradient is 0
   * outside. Without, the result and the gradient are NaN outside of [0, 1]. Integers become f32. Shape: N -> N.
   */
  logit(eps?: number): T {
    if (eps !== undefined && !halfOrLess.fits(eps)) throw unfit('logit', 'eps', eps, halfOrLess);
    return this.tensorOf(activations.logit(asFloat(this.node), eps ?? null));
  }
  /** x for x above 0, else negativeSlope * x. Shape: N -> N. */
  leakyRelu(negativeSlope?: number): T {
    return this.tensorOf(leakyRelu(this.node, negativeSlope));
  }
  /** x for x above 0, else alpha * (exp(x) - 1). Shape: N -> N. */
  elu(alpha?: number): T {
    return this.tensorOf(elu(this.node, alpha));
  }
  /** x * tanh(softplus(x)). Shape: N -> N. */
  mish(): T {
    return this.tensorOf(mish(this.node));
  }
  /** Limits elements to [low, high]. The gradient is 0 at both bounds. Shape: N -> N. */
  hardtanh(low?: number, high?: number): T {
    return this.tensorOf(hardtanh(this.node, low, high));
  }
  /**
   * x times the probability that a normal number is below x (Hendrycks and Gimpel 2016), or its approximation by tanh.
   * Shape: N -> N.
   */
  gelu(approximate: 'none' | 'tanh' = 'none'): T {
    requireApproximation('gelu', approximate);
    return this.tensorOf(activations.gelu(this.node, approximate));
  }
  /** x * sigmoid(x). Shape: N -> N. */
  silu(): T {
    return this.tensorOf(activations.silu(this.node));
  }
  /** Whether elements are NaN. Shape: N -> N, of bools. */
  isNaN(): T {
    return this.tensorOf(tests.isNaN(this.node));
  }
  /** Whether elements are neither NaN nor infinite. Shape: N -> N, of bools. */
  isFinite(): T {
    return this.tensorOf(tests.isFinite(this.node));
  }
  /** Whether elements are Infinity or -Infinity. Shape: N -> N, of bools. */
  isInf(): T {
    return this.tensorOf(tests.isInf(this.node));
  }
  /** Whether elements are 0 or false. Shape: N -> N, of bools. */
  logicalNot(): T {
    return this.tensorOf(elementwise.logicalNot(elementwise.cast(this.node, 'bool')));
  }
  /**
   * Limits elements to [low, high]. Null means no bound. The gradient at the bounds is 1, as in PyTorch before 2.15.
   * From 2.15 on, PyTorch has 0 there. Throws ConfigError without a bound. Shape: N -> N.
   */
  clamp(low: number | null, high: number | null = null): T {
    requireBound(low, high);
    return this.tensorOf(clamp(this.node, low, high));
  }
  /**
   * Converts every element. Integers that the dtype does not hold wrap around. For bool, an element that is not 0
   * becomes true. Shape: N -> N.
   */
  to(dtype: DType): T {
    requireDTypeName('to()', dtype);
    return this.tensorOf(elementwise.cast(this.node, dtype));
  }
  /** Returns a tensor with the same values that no gradient flows through. Shape: N -> N. */
  detach(): T {
    return this.tensorOf(detach(this.node));
  }
}
