import { combine, compare, divide, logical, type RoundingMode, where } from '../arithmetic.ts';
import { operandOf, requireTensors } from '../check-arguments.ts';
import { TensorHandle } from '../handle.ts';
import { addcdiv, addcmul, lerp } from '../pointwise/interpolation.ts';
import { fmod, remainder } from '../pointwise/remainder.ts';
import { atan2 } from '../pointwise/trigonometric.ts';
import { logicalNot } from '../../graph/ops/elementwise.ts';
import type { Node } from '../../graph/node.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** Options of `div`. */
export interface DivideOptions {
  /** Rounds the quotient to a whole number, towards zero or towards minus infinity. Default: no rounding. */
  readonly roundingMode?: RoundingMode;
}

/** Options of `addcmul` and `addcdiv`. */
export interface AddProductOptions {
  /** The factor of the product or quotient. Default: 1. */
  readonly value?: number;
}

const divideRules: OptionRules<DivideOptions> = { roundingMode: option.oneOf('trunc', 'floor') };
const addProductRules: OptionRules<AddProductOptions> = { value: option.number };

/**
 * Methods that combine the elements of several tensors. The operands are promoted to the dtype that resultDType
 * returns. T is the class of tensors. Shape: N, N' -> broadcast(N, N').
 */
export abstract class BinaryMethods<T extends TensorHandle> extends TensorHandle {
  /** The tensor of a node that a method has made. */
  protected abstract tensorOf(node: Node): T;

  /** this + other. Shape: N, N' -> broadcast(N, N'). */
  add(other: T | number): T {
    return this.tensorOf(combine('add', this.node, operandOf(other)));
  }
  /** this - other. Shape: N, N' -> broadcast(N, N'). */
  sub(other: T | number): T {
    return this.tensorOf(combine('sub', this.node, operandOf(other)));
  }
  /** this * other. Shape: N, N' -> broadcast(N, N'). */
  mul(other: T | number): T {
    return this.tensorOf(combine('mul', this.node, operandOf(other)));
  }
  /**
   * The quotient. For integers it is f32, too, unless it is rounded: a rounded quotient stays an integer, and has no
   * gradient. Dividing integers by an element that is 0 gives an undefined value (PyTorch raises an error). Throws
   * ConfigError for an integer by the number 0, and for an unknown mode. Shape: N, N' -> broadcast(N, N').
   */
  div(other: T | number, options?: DivideOptions): T {
    checkOptions('div', options, divideRules);
    return this.tensorOf(divide(this.node, operandOf(other), options?.roundingMode));
  }
  /**
   * This to the power of `exponent`. Throws DTypeError for an integer to a power that is a negative number. Shape: N,
   * N' -> broadcast(N, N').
   */
  pow(exponent: T | number): T {
    return this.tensorOf(combine('pow', this.node, operandOf(exponent)));
  }
  /**
   * The remainder of a division, with the sign of `other`, like Python's `%`. Throws ConfigError for an integer by 0.
   * Shape: N, N' -> broadcast(N, N').
   */
  remainder(other: T | number): T {
    return this.tensorOf(remainder(this.node, operandOf(other)));
  }
  /**
   * The remainder of a division, with the sign of this tensor. Throws ConfigError for an integer by 0. Shape: N, N' ->
   * broadcast(N, N').
   */
  fmod(other: T | number): T {
    return this.tensorOf(fmod(this.node, operandOf(other)));
  }
  /** The angle of the point (x, this), from -π to π. Shape: N, N' -> broadcast(N, N'). */
  atan2(x: T | number): T {
    return this.tensorOf(atan2(this.node, operandOf(x)));
  }
  /** this + weight * (end - this). Shapes: this, end, weight -> broadcast of all. */
  lerp(end: T, weight: T | number): T {
    requireTensors('lerp', { end });
    return this.tensorOf(lerp(this.node, end.node, operandOf(weight)));
  }
  /** this + value * a * b. Shapes: this, a, b -> broadcast of all. */
  addcmul(a: T, b: T, options?: AddProductOptions): T {
    requireTensors('addcmul', { a, b });
    checkOptions('addcmul', options, addProductRules);
    return this.tensorOf(addcmul(this.node, a.node, b.node, options?.value ?? 1));
  }
  /** this + value * a / b. Shapes: this, a, b -> broadcast of all. */
  addcdiv(a: T, b: T, options?: AddProductOptions): T {
    requireTensors('addcdiv', { a, b });
    checkOptions('addcdiv', options, addProductRules);
    return this.tensorOf(addcdiv(this.node, a.node, b.node, options?.value ?? 1));
  }
  /**
   * The larger of two elements. If they are equal, each gets half of the gradient. NaN if one of them is NaN. Shape: N,
   * N' -> broadcast(N, N').
   */
  maximum(other: T | number): T {
    return this.tensorOf(combine('maximum', this.node, operandOf(other)));
  }
  /**
   * The smaller of two elements. If they are equal, each gets half of the gradient. NaN if one of them is NaN. Shape:
   * N, N' -> broadcast(N, N').
   */
  minimum(other: T | number): T {
    return this.tensorOf(combine('minimum', this.node, operandOf(other)));
  }
  /** Whether elements are equal. Shape: N, N' -> broadcast(N, N'), of bools. */
  eq(other: T | number): T {
    return this.tensorOf(compare('equal', this.node, operandOf(other)));
  }
  /** Whether elements differ. Shape: N, N' -> broadcast(N, N'), of bools. */
  ne(other: T | number): T {
    return this.tensorOf(logicalNot(compare('equal', this.node, operandOf(other))));
  }
  /** this < other. Shape: N, N' -> broadcast(N, N'), of bools. */
  lt(other: T | number): T {
    return this.tensorOf(compare('less', this.node, operandOf(other)));
  }
  /** this <= other. Shape: N, N' -> broadcast(N, N'), of bools. */
  le(other: T | number): T {
    return this.tensorOf(compare('lessEqual', this.node, operandOf(other)));
  }
  /** this > other. Shape: N, N' -> broadcast(N, N'), of bools. */
  gt(other: T | number): T {
    return this.tensorOf(compare('less', operandOf(other), this.node));
  }
  /** this >= other. Shape: N, N' -> broadcast(N, N'), of bools. */
  ge(other: T | number): T {
    return this.tensorOf(compare('lessEqual', operandOf(other), this.node));
  }
  /** Whether both elements are true. Shape: N, N' -> broadcast(N, N'), of bools. */
  logicalAnd(other: T): T {
    return this.tensorOf(logical('logicalAnd', this.node, other.node));
  }
  /** Whether one of two elements is true. Shape: N, N' -> broadcast(N, N'), of bools. */
  logicalOr(other: T): T {
    return this.tensorOf(logical('logicalOr', this.node, other.node));
  }
  /**
   * torch.where: takes elements of `a` where this tensor of bools is true, and elements of `b` elsewhere. Shapes: this,
   * a, b -> broadcast of all.
   */
  where(a: T | number, b: T | number): T {
    return this.tensorOf(where(this.node, operandOf(a), operandOf(b)));
  }
}
