import {
  type Code,
  f32x4,
  type FunctionBuilder,
  i32x4,
  type Local,
  v128,
  vector,
} from '@shardwise/wasm-assembler';
import type { LaneDType } from './loop-spec.ts';

type V128 = Code<'v128'>;
type Vector = Local<'v128'>;

/** The dtypes that loops compute with. Values of other dtypes are converted to one of these. */
type ComputeDType = 'f32' | 'i32' | 'bool';

const computed: Readonly<Record<LaneDType, ComputeDType>> = {
  f32: 'f32',
  i32: 'i32',
  bool: 'bool',
  f16: 'f32',
  bf16: 'f32',
  u8: 'i32',
};

const SIGN = -0x80000000;
/** The difference between the exponent biases of f32 and f16, shifted to the place of an f32's exponent. */
const REBIAS = (127 - 15) << 23;
/** The smallest normal f16, 2^-14, as the bits of an f32. */
const F16_SMALLEST_NORMAL = 113 << 23;
/** 2^16, which no f16 reaches, as the bits of an f32. */
const F16_BEYOND = 143 << 23;

/** Converts lanes to the nearest value, ties to even. Float to int truncates. Anything to bool is != 0. */
export function cast(
  { fn, dtype, inputDType }: { fn: FunctionBuilder; dtype: LaneDType; inputDType: LaneDType },
  x: Vector,
): V128 {
  if (dtype === inputDType) return x;
  const wide = fn.let(widened(fn, inputDType, x));
  const result = fn.let(convert(fn, computed[inputDType], computed[dtype], wide));
  return narrowed(fn, dtype, result);
}

export function isNonZero(fn: FunctionBuilder, x: V128): V128 {
  return i32x4.ne(x, fn.int(0));
}

function convert(fn: FunctionBuilder, from: ComputeDType, to: ComputeDType, x: Vector): V128 {
  if (from === to) return x;
  if (to === 'bool') return from === 'f32' ? f32x4.ne(x, fn.float(0)) : isNonZero(fn, x);
  if (from === 'bool') return v128.and(x, to === 'f32' ? fn.float(1) : fn.int(1));
  return to === 'f32' ? f32x4.convertI32x4S(x) : i32x4.truncSatF32x4S(x);
}

function widened(fn: FunctionBuilder, dtype: LaneDType, x: Vector): V128 {
  if (dtype === 'bf16') return i32x4.shl(x, 16);
  return dtype === 'f16' ? fromFloat16(fn, x) : x;
}

function narrowed(fn: FunctionBuilder, dtype: LaneDType, x: Vector): V128 {
  if (dtype === 'bf16') return toBfloat16(fn, x);
  if (dtype === 'f16') return toFloat16(fn, x);
  return dtype === 'u8' ? v128.and(x, fn.int(0xff)) : x;
}

/**
 * Rounds by adding just less than half of the last place that is kept, and one more if that place is odd. Processors
 * may have an instruction for this.
 */
function toBfloat16(fn: FunctionBuilder, x: Vector): V128 {
  const odd = v128.and(i32x4.shrU(x, 16), fn.int(1));
  const rounded = i32x4.shrU(i32x4.add(i32x4.add(x, fn.int(0x7fff)), odd), 16);
  const quietNaN = v128.or(i32x4.shrU(x, 16), fn.int(0x40));
  return vector('toBfloat16', [x], [], v128.bitselect(quietNaN, rounded, f32x4.ne(x, x)).bytes);
}

/**
 * Subnormal results are rounded by adding 0.5, whose last place is the same as theirs. For normal results, one sum both
 * rounds and changes the exponent's bias, so that a carry leads to infinity.
 */
function toFloat16(fn: FunctionBuilder, x: Vector): V128 {
  const sign = fn.let(v128.and(x, fn.int(SIGN)));
  const magnitude = fn.let(v128.xor(x, sign));
  const half = fn.float(0.5);
  const subnormal = i32x4.sub(f32x4.add(magnitude, half), half);
  const odd = v128.and(i32x4.shrU(magnitude, 13), fn.int(1));
  const normal = i32x4.shrU(i32x4.add(i32x4.add(magnitude, fn.int(0xfff - REBIAS)), odd), 13);
  const isSubnormal = i32x4.ltS(magnitude, fn.int(F16_SMALLEST_NORMAL));
  const finite = v128.bitselect(subnormal, normal, isSubnormal);
  const special = v128.bitselect(fn.int(0x7e00), fn.int(0x7c00), f32x4.ne(x, x));
  const isFinite = i32x4.ltS(magnitude, fn.int(F16_BEYOND));
  return v128.or(v128.bitselect(finite, special, isFinite), i32x4.shrU(sign, 16));
}

/** A subtraction brings subnormal values to f32. Infinity and NaN keep their fraction. */
function fromFloat16(fn: FunctionBuilder, x: Vector): V128 {
  const shifted = fn.let(i32x4.shl(v128.and(x, fn.int(0x7fff)), 13));
  const exponent = fn.let(v128.and(shifted, fn.int(0x7c00 << 13)));
  const normal = fn.let(i32x4.add(shifted, fn.int(REBIAS)));
  const special = i32x4.add(normal, fn.int(REBIAS));
  const smallest = fn.int(F16_SMALLEST_NORMAL);
  const subnormal = f32x4.sub(i32x4.add(normal, fn.int(1 << 23)), smallest);
  const isSpecial = i32x4.eq(exponent, fn.int(0x7c00 << 13));
  const isSubnormal = i32x4.eq(exponent, fn.int(0));
  const finite = v128.bitselect(subnormal, normal, isSubnormal);
  const sign = i32x4.shl(v128.and(x, fn.int(0x8000)), 16);
  return v128.or(v128.bitselect(special, finite, isSpecial), sign);
}
