import { kindOf } from '../../dtype.ts';
import { requireDTypeName } from '../../dtype-name.ts';
import * as elementwise from '../../graph/build/elementwise.ts';
import { createNode, noGrad } from '../../graph/create-node.ts';
import { none } from '../../graph/node.ts';
import type { DType } from '../../spec/dtype.ts';
import { asFloat, clamp, inverseSqrt } from '../arithmetic.ts';
import { requireApproximation, requireBound, requireWhole } from '../check-arguments.ts';
import type { TensorHandle } from '../handle.ts';
import { elu, hardtanh, leakyRelu, mish } from '../pointwise/activations.ts';
import { exp2, expm1, log1p, log2 } from '../pointwise/exponential.ts';
import { round, trunc } from '../pointwise/rounding.ts';
import * as tests from '../pointwise/tests.ts';
import { acos, asin, atan, cosh, reciprocal, sinh, tan } from '../pointwise/trigonometric.ts';
import { BinaryMethods } from './binary-methods.ts';

/** Methods that give each element another value. Shape: N -> N. */
export abstract class UnaryMethods<T extends TensorHandle> extends BinaryMethods<T> {
  neg(): T {
    return this.tensorOf(elementwise.neg(this.node));
  }
  abs(): T {
    return this.tensorOf(elementwise.abs(this.node));
  }
  sign(): T {
    return this.tensorOf(elementwise.sign(this.node));
  }
  exp(): T {
    return this.tensorOf(elementwise.exp(asFloat(this.node)));
  }
  log(): T {
    return this.tensorOf(elementwise.log(asFloat(this.node)));
  }
  sqrt(): T {
    return this.tensorOf(elementwise.sqrt(asFloat(this.node)));
  }
  rsqrt(): T {
    return this.tensorOf(inverseSqrt(this.node));
  }
  /** log(1 + x), which is accurate for small x, too. */
  log1p(): T {
    return this.tensorOf(log1p(this.node));
  }
  /** exp(x) - 1, which is accurate for small x, too. */
  expm1(): T {
    return this.tensorOf(expm1(this.node));
  }
  /** The logarithm to base 2. It is exact for powers of 2. */
  log2(): T {
    return this.tensorOf(log2(this.node));
  }
  exp2(): T {
    return this.tensorOf(exp2(this.node));
  }
  reciprocal(): T {
    return this.tensorOf(reciprocal(this.node));
  }
  sin(): T {
    return this.tensorOf(elementwise.sin(asFloat(this.node)));
  }
  cos(): T {
    return this.tensorOf(elementwise.cos(asFloat(this.node)));
  }
  tan(): T {
    return this.tensorOf(tan(this.node));
  }
  asin(): T {
    return this.tensorOf(asin(this.node));
  }
  acos(): T {
    return this.tensorOf(acos(this.node));
  }
  atan(): T {
    return this.tensorOf(atan(this.node));
  }
  sinh(): T {
    return this.tensorOf(sinh(this.node));
  }
  cosh(): T {
    return this.tensorOf(cosh(this.node));
  }
  tanh(): T {
    return this.tensorOf(elementwise.tanh(asFloat(this.node)));
  }
  erf(): T {
    return this.tensorOf(elementwise.erf(asFloat(this.node)));
  }
  floor(): T {
    return kindOf(this.dtype) === 'int'
      ? this.tensorOf(this.node)
      : this.tensorOf(elementwise.floor(this.node));
  }
  ceil(): T {
    return kindOf(this.dtype) === 'int'
      ? this.tensorOf(this.node)
      : this.tensorOf(elementwise.ceil(this.node));
  }
  /** Rounds to `decimals` places behind the point. Halves go to the even digit. The gradient is 0. */
  round(decimals = 0): T {
    requireWhole('round', { decimals });
    return this.tensorOf(round(this.node, decimals));
  }
  /** Rounds towards zero. The gradient is 0. */
  trunc(): T {
    return this.tensorOf(trunc(this.node));
  }
  square(): T {
    return this.dtype === 'bool' ? this.to('i32') : this.tensorOf(elementwise.square(this.node));
  }
  sigmoid(): T {
    return this.tensorOf(elementwise.sigmoid(asFloat(this.node)));
  }
  relu(): T {
    if (kindOf(this.dtype) === 'int') return this.maximum(0);
    return this.tensorOf(elementwise.relu(this.node));
  }
  /** log(1 + exp(x)). */
  softplus(): T {
    return this.tensorOf(elementwise.softplus(this.node));
  }
  /** x for x above 0, else negativeSlope * x. */
  leakyRelu(negativeSlope?: number): T {
    return this.tensorOf(leakyRelu(this.node, negativeSlope));
  }
  /** x for x above 0, else alpha * (exp(x) - 1). */
  elu(alpha?: number): T {
    return this.tensorOf(elu(this.node, alpha));
  }
  /** x * tanh(softplus(x)). */
  mish(): T {
    return this.tensorOf(mish(this.node));
  }
  /** Limits elements to [low, high]. The gradient is 0 at both bounds. */
  hardtanh(low?: number, high?: number): T {
    return this.tensorOf(hardtanh(this.node, low, high));
  }
  gelu(approximate: 'none' | 'tanh' = 'none'): T {
    requireApproximation('gelu', approximate);
    return this.tensorOf(elementwise.gelu(this.node, approximate));
  }
  silu(): T {
    return this.tensorOf(elementwise.silu(this.node));
  }
  isNaN(): T {
    return this.tensorOf(tests.isNaN(this.node));
  }
  isFinite(): T {
    return this.tensorOf(tests.isFinite(this.node));
  }
  isInf(): T {
    return this.tensorOf(tests.isInf(this.node));
  }
  logicalNot(): T {
    return this.tensorOf(elementwise.logicalNot(elementwise.cast(this.node, 'bool')));
  }
  /**
   * Limits elements to [low, high]. Null means no bound. The gradient at the bounds is 1, as in PyTorch before 2.15.
   * From 2.15 on, PyTorch has 0 there. Throws ConfigError without a bound.
   */
  clamp(low: number | null, high: number | null = null): T {
    requireBound(low, high);
    return this.tensorOf(clamp(this.node, low, high));
  }
  /**
   * Converts every element. Integers that the dtype does not hold wrap around. For bool, an element that is not 0
   * becomes true.
   */
  to(dtype: DType): T {
    requireDTypeName('to()', dtype);
    return this.tensorOf(elementwise.cast(this.node, dtype));
  }
  /** Returns a tensor with the same values that no gradient flows through. */
  detach(): T {
    return this.tensorOf(noGrad(() => createNode('detach', none, [this.node])));
  }
}
