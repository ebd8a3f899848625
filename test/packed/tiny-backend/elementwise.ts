import type { PrimitiveOp } from '@shardwise/core/spec';

type Unary = (x: number) => number;
type Binary = (a: number, b: number, isInt: boolean) => number;

export const unary = {
  neg: (x) => -x,
  abs: Math.abs,
  sign: (x) => (x > 0 ? 1 : x < 0 ? -1 : 0),
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  sin: Math.sin,
  cos: Math.cos,
  atan: Math.atan,
  tanh: Math.tanh,
  erf: (x) => erf(x),
  floor: Math.floor,
  ceil: Math.ceil,
  logicalNot: (x) => (x === 0 ? 1 : 0),
} as const satisfies Partial<Record<PrimitiveOp, Unary>>;

export const binary = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b, isInt) => (isInt ? Math.imul(a, b) : a * b),
  div: (a, b) => a / b,
  pow: (a, b, isInt) => (isInt ? intPower(a, b) : floatPower(a, b)),
  maximum: (a, b) => Math.max(a, b),
  minimum: (a, b) => Math.min(a, b),
  fmod: (a, b) => a % b,
  equal: (a, b) => Number(a === b),
  less: (a, b) => Number(a < b),
  lessEqual: (a, b) => Number(a <= b),
  logicalAnd: (a, b) => Number(a !== 0 && b !== 0),
  logicalOr: (a, b) => Number(a !== 0 || b !== 0),
} as const satisfies Partial<Record<PrimitiveOp, Binary>>;

/**
 * Computes powers as IEEE 754 defines them. ECMAScript returns NaN for 1 to a power that is not finite or NaN, and for
 * -1 to an infinite power.
 */
function floatPower(base: number, exponent: number): number {
  if (base === 1 || (base === -1 && Math.abs(exponent) === Infinity)) return 1;
  return base ** exponent;
}

function intPower(base: number, exponent: number): number {
  if (exponent < 0) {
    if (Math.abs(base) !== 1) return 0;
    return base === 1 || exponent % 2 === 0 ? 1 : -1;
  }
  let result = 1;
  for (let bit = 31; bit >= 0; bit--) {
    result = Math.imul(result, result);
    if ((exponent >>> bit) & 1) result = Math.imul(result, base);
  }
  return result;
}

/** Computes erf by a series without cancellation: erf(x) = 2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)). */
function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  if (Math.abs(x) > 6) return Math.sign(x);
  let [term, sum] = [x, x];
  for (let odd = 3; Math.abs(term) > Math.abs(sum) * 1e-17; odd += 2) {
    term *= (2 * x * x) / odd;
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
