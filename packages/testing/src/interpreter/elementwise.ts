import type { DType } from '@shardwise/core/spec';
import type { Definitions } from './definition.ts';
import { at } from './nd-array.ts';
import type { NdArray } from './nd-array.ts';

type Elementwise =
  | 'neg'
  | 'abs'
  | 'sign'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'sin'
  | 'cos'
  | 'atan'
  | 'tanh'
  | 'erf'
  | 'floor'
  | 'ceil'
  | 'logicalNot'
  | 'cast'
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'pow'
  | 'maximum'
  | 'minimum'
  | 'fmod'
  | 'equal'
  | 'less'
  | 'lessEqual'
  | 'logicalAnd'
  | 'logicalOr'
  | 'where';

/** `maximum` and `minimum` return NaN if either side is NaN. */
export const elementwise: Definitions<Elementwise> = {
  neg: unary((x) => -x),
  abs: unary(Math.abs),
  sign: unary((x) => Math.sign(x) || 0),
  exp: unary(Math.exp),
  log: unary(Math.log),
  sqrt: unary(Math.sqrt),
  sin: unary(Math.sin),
  cos: unary(Math.cos),
  atan: unary(Math.atan),
  tanh: unary(Math.tanh),
  erf: unary(erf),
  floor: unary(Math.floor),
  ceil: unary(Math.ceil),
  logicalNot: unary((x) => 1 - x),
  // Every result is rounded to its dtype, which makes it the cast.
  cast: unary((x) => x),

  add: binary((a, b) => a + b),
  sub: binary((a, b) => a - b),
  mul: binary((a, b, dtype) => (dtype === 'i32' ? Math.imul(a, b) : a * b)),
  div: binary((a, b) => a / b),
  pow: binary((base, exponent, dtype) =>
    dtype === 'i32' ? wholePower(base, exponent) : power(base, exponent),
  ),
  maximum: binary((a, b) => Math.max(a, b)),
  minimum: binary((a, b) => Math.min(a, b)),
  fmod: binary((a, b) => a % b),
  equal: binary((a, b) => Number(a === b)),
  less: binary((a, b) => Number(a < b)),
  lessEqual: binary((a, b) => Number(a <= b)),
  logicalAnd: binary((a, b) => a * b),
  logicalOr: binary((a, b) => Math.max(a, b)),
  where: (_params, out, condition, a, b) => {
    for (let i = 0; i < out.values.length; i++) {
      out.values[i] = at(condition.values, i) === 0 ? at(b.values, i) : at(a.values, i);
    }
  },
};

function unary(f: (x: number) => number) {
  return (_params: object, out: NdArray, x: NdArray): void => {
    for (let i = 0; i < out.values.length; i++) out.values[i] = f(at(x.values, i));
  };
}

function binary(f: (a: number, b: number, dtype: DType) => number) {
  return (_params: object, out: NdArray, a: NdArray, b: NdArray): void => {
    for (let i = 0; i < out.values.length; i++) {
      out.values[i] = f(at(a.values, i), at(b.values, i), out.dtype);
    }
  };
}

/** IEEE 754 pow. 1 to any power is 1, whereas ECMAScript returns NaN if the exponent is NaN or infinite. */
function power(base: number, exponent: number): number {
  if (base === 1) return 1;
  return base === -1 && Math.abs(exponent) === Infinity ? 1 : base ** exponent;
}

/** Computes the power by squaring, so that integers wrap around. */
function wholePower(base: number, exponent: number): number {
  if (exponent < 0) {
    if (base === 1) return 1;
    return base === -1 ? 1 - 2 * (-exponent % 2) : 0;
  }
  let [result, square] = [1, base];
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = Math.imul(result, square);
    square = Math.imul(square, square);
  }
  return result;
}

/** Uses the series of Abramowitz and Stegun 7.1.6, whose terms all have the same sign. Beyond 6, erf is 1 in f64. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
