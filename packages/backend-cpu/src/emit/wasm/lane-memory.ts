import {
  type Code,
  type FunctionBuilder,
  i16x8,
  i32,
  i32x4,
  i8x16,
  type Local,
  v128,
} from '@shardwise/wasm-assembler';
import { isNonZero } from '../../lanes/cast.ts';
import { type LaneDType, laneBytes } from '../../lanes/loop-spec.ts';

/** Whether a vector holds four elements or, at the end of a row, one element in all lanes. */
export type Width = 1 | 4;

export function loadLanes(
  fn: FunctionBuilder,
  dtype: LaneDType,
  width: Width,
  address: Code<'usize'>,
  byteOffset: number,
): Code<'v128'> {
  if (width === 1) return splatAt(fn, dtype, address, byteOffset);
  if (laneBytes[dtype] === 2) return v128.load16x4u(address, byteOffset);
  if (laneBytes[dtype] === 4) return v128.load(address, byteOffset);
  const bytes = v128.load32Zero(address, byteOffset);
  const lanes = i32x4.extendLowI16x8U(i16x8.extendLowI8x16U(bytes));
  return dtype === 'bool' ? isNonZero(fn, lanes) : lanes;
}

export function storeLanes(
  fn: FunctionBuilder,
  dtype: LaneDType,
  width: Width,
  address: Code<'usize'>,
  value: Local<'v128'>,
  byteOffset: number,
): void {
  if (laneBytes[dtype] === 1) {
    const bytes = dtype === 'bool' ? fn.let(v128.and(value, fn.int(1))) : value;
    if (width === 1) {
      fn.do(i32.store8(address, i32x4.extractLane(bytes, 0), byteOffset));
      return;
    }
    const words = fn.let(i16x8.narrowI32x4U(bytes, bytes));
    fn.do(v128.store32Lane0(address, i8x16.narrowI16x8U(words, words), byteOffset));
    return;
  }
  if (laneBytes[dtype] === 2) {
    fn.do(
      width === 1
        ? i32.store16(address, i32x4.extractLane(value, 0), byteOffset)
        : v128.store64Lane0(address, i16x8.narrowI32x4U(value, value), byteOffset),
    );
    return;
  }
  fn.do(
    width === 1
      ? v128.store32Lane0(address, value, byteOffset)
      : v128.store(address, value, byteOffset),
  );
}

/** Loads one element into all lanes. */
export function splatAt(
  fn: FunctionBuilder,
  dtype: LaneDType,
  address: Code<'usize'>,
  byteOffset: number,
): Code<'v128'> {
  if (laneBytes[dtype] === 4) return v128.load32Splat(address, byteOffset);
  if (laneBytes[dtype] === 2) return i32x4.splat(i32.load16u(address, byteOffset));
  const byte = i32x4.splat(i32.load8u(address, byteOffset));
  return dtype === 'bool' ? isNonZero(fn, byte) : byte;
}
