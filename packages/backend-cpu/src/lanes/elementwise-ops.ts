import {
  type Code,
  f32x4,
  f64x2,
  type FunctionBuilder,
  i32x4,
  i8x16,
  type Local,
  v128,
} from '@shardwise/wasm-assembler';
import type { ElementwiseOp, LaneDType } from './loop-spec.ts';
import { cast } from './cast.ts';
import * as math from './math.ts';

type V128 = Code<'v128'>;
type Vector = Local<'v128'>;

/** What the code of an op may depend on. */
interface EmitContext {
  readonly fn: FunctionBuilder;
  readonly dtype: LaneDType;
  /** The dtype of the last input. It selects the code of every op. */
  readonly inputDType: LaneDType;
  readonly approximate: 'none' | 'tanh';
  /** Returns the flat indices of the four elements. */
  readonly index: () => Vector;
}

type Emit = (context: EmitContext, a: Vector, b: Vector, c: Vector) => V128;

const LOW_PAIR = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
const HIGH_PAIR = [8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15];

function byType(float: Emit, int: Emit): Emit {
  return (context, a, b, c) => (context.inputDType === 'f32' ? float : int)(context, a, b, c);
}

/** Divides i32 values in f64, which is exact before the result is truncated. Division by zero saturates. */
function divideInt(a: Vector, b: Vector): V128 {
  const half = (x: V128, y: V128): V128 =>
    i32x4.truncSatF64x2SZero(f64x2.div(f64x2.convertLowI32x4S(x), f64x2.convertLowI32x4S(y)));
  const high = half(i8x16.shuffle(a, a, HIGH_PAIR), i8x16.shuffle(b, b, HIGH_PAIR));
  return i8x16.shuffle(half(a, b), high, LOW_PAIR);
}

/** The sign of floats. NaN and zeros give 0. */
function signFloat({ fn }: EmitContext, x: Vector): V128 {
  const one = v128.or(fn.float(1), v128.and(x, fn.int(-0x80000000)));
  const zero = fn.float(0);
  return v128.and(one, v128.or(f32x4.lt(x, zero), f32x4.gt(x, zero)));
}

/**
 * Computes a power by squaring, for each bit of the exponent. With a negative exponent, only 1 and -1 have a power
 * other than 0.
 */
function powInt({ fn }: EmitContext, base: Vector, exponent: Vector): V128 {
  const one = fn.int(1);
  const negative = fn.let(i32x4.shrS(exponent, 31));
  const isUnit = v128.or(i32x4.eq(base, one), i32x4.eq(base, fn.int(-1)));
  // A negative exponent has the parity of the positive one, and the low bits are all that 1 and -1 need.
  let result = fn.let(v128.and(one, v128.or(v128.not(negative), isUnit)));
  let square = fn.let(v128.and(base, v128.or(v128.not(negative), isUnit)));
  for (let bit = 0; bit < 31; bit++) {
    const isSet = i32x4.shrS(i32x4.shl(exponent, 31 - bit), 31);
    result = fn.let(v128.bitselect(i32x4.mul(result, square), result, isSet));
    square = fn.let(i32x4.mul(square, square));
  }
  return result;
}

function mix(
  fn: FunctionBuilder,
  x: V128,
  rounds: readonly [number, number, number, number, number],
): V128 {
  const [shift1, factor1, shift2, factor2, shift3] = rounds;
  let value = fn.let(x);
  value = fn.let(v128.xor(value, i32x4.shrU(value, shift1)));
  value = fn.let(i32x4.mul(value, fn.int(factor1 | 0)));
  value = fn.let(v128.xor(value, i32x4.shrU(value, shift2)));
  value = fn.let(i32x4.mul(value, fn.int(factor2 | 0)));
  return v128.xor(value, i32x4.shrU(value, shift3));
}

/**
 * A hash of key and index: x = index * 0x9E3779B9 + key0 is mixed by MurmurHash3's finalizer. Then key1 is added, and
 * the sum is mixed with the lowbias32 constants. All arithmetic is modulo 2^32.
 */
function random({ fn, index }: EmitContext, key0: Vector, key1: Vector): V128 {
  const start = i32x4.add(i32x4.mul(index(), fn.int(0x9e3779b9 | 0)), key0);
  const first = mix(fn, start, [16, 0x85ebca6b, 13, 0xc2b2ae35, 16]);
  return mix(fn, i32x4.add(first, key1), [16, 0x7feb352d, 15, 0x846ca68b, 16]);
}

/** The code of each op. Inputs that an op does not use repeat the first. */
export const emitters: Readonly<Record<ElementwiseOp, Emit>> = {
  neg: byType(
    (_, a) => f32x4.neg(a),
    (_, a) => i32x4.neg(a),
  ),
  abs: byType(
    (_, a) => f32x4.abs(a),
    (_, a) => i32x4.abs(a),
  ),
  sign: byType(signFloat, ({ fn }, a) => i32x4.minS(i32x4.maxS(a, fn.int(-1)), fn.int(1))),
  exp: ({ fn }, a) => math.exp(fn, a),
  log: ({ fn }, a) => math.log(fn, a),
  sqrt: (_, a) => f32x4.sqrt(a),
  tanh: ({ fn }, a) => math.tanh(fn, a),
  erf: ({ fn }, a) => math.erf(fn, a),
  floor: byType(
    (_, a) => f32x4.floor(a),
    (_, a) => a,
  ),
  ceil: byType(
    (_, a) => f32x4.ceil(a),
    (_, a) => a,
  ),
  logicalNot: (_, a) => v128.not(a),
  cast,
  add: byType(
    (_, a, b) => f32x4.add(a, b),
    (_, a, b) => i32x4.add(a, b),
  ),
  sub: byType(
    (_, a, b) => f32x4.sub(a, b),
    (_, a, b) => i32x4.sub(a, b),
  ),
  mul: byType(
    (_, a, b) => f32x4.mul(a, b),
    (_, a, b) => i32x4.mul(a, b),
  ),
  div: byType(
    (_, a, b) => f32x4.div(a, b),
    (_, a, b) => divideInt(a, b),
  ),
  pow: powInt,
  maximum: byType(
    (_, a, b) => f32x4.max(a, b),
    (_, a, b) => i32x4.maxS(a, b),
  ),
  minimum: byType(
    (_, a, b) => f32x4.min(a, b),
    (_, a, b) => i32x4.minS(a, b),
  ),
  equal: byType(
    (_, a, b) => f32x4.eq(a, b),
    (_, a, b) => i32x4.eq(a, b),
  ),
  less: byType(
    (_, a, b) => f32x4.lt(a, b),
    (_, a, b) => i32x4.ltS(a, b),
  ),
  lessEqual: byType(
    (_, a, b) => f32x4.le(a, b),
    (_, a, b) => i32x4.leS(a, b),
  ),
  logicalAnd: (_, a, b) => v128.and(a, b),
  logicalOr: (_, a, b) => v128.or(a, b),
  where: (_, condition, a, b) => v128.bitselect(a, b, condition),
  sigmoid: ({ fn }, a) => math.sigmoid(fn, a),
  // This keeps NaN, and turns -0 into +0.
  relu: ({ fn }, a) => v128.andnot(a, f32x4.le(a, fn.float(0))),
  gelu: ({ fn, approximate }, x) => math.gelu(fn, x, approximate),
  geluGrad: ({ fn, approximate }, x, dy) => f32x4.mul(math.geluSlope(fn, x, approximate), dy),
  random,
};
