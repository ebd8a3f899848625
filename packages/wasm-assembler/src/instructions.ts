import {
  type Bytes,
  type Code,
  type ValueKind,
  code,
  float32Bits,
  float64Bytes,
  int32Bytes,
  signed,
  unsigned,
  vector,
} from './code.ts';

type I32 = Code<'i32'>;
type F32 = Code<'f32'>;
type I64 = Code<'i64'>;
type F64 = Code<'f64'>;
type V128 = Code<'v128'>;
type Usize = Code<'usize'>;
type Unary<A extends ValueKind, R extends ValueKind> = (a: Code<A>) => Code<R>;
type Binary<A extends ValueKind, R extends ValueKind> = (a: Code<A>, b: Code<A>) => Code<R>;
type Load<R extends ValueKind> = (address: Usize, byteOffset?: number) => Code<R>;
type Store<A extends ValueKind> = (
  address: Usize,
  value: Code<A>,
  byteOffset?: number,
) => Code<'nothing'>;

const SIMD_PREFIX = 0xfd;

function unary<A extends ValueKind, R extends ValueKind>(
  result: R,
  ...opcode: number[]
): Unary<A, R> {
  return (a) => code(result, a.bytes, ...opcode);
}

function binary<A extends ValueKind, R extends ValueKind>(
  result: R,
  ...opcode: number[]
): Binary<A, R> {
  return (a, b) => code(result, a.bytes, b.bytes, ...opcode);
}

/** Loads and stores do not claim natural alignment, because sub-buffers may lie anywhere. */
function load<R extends ValueKind>(result: R, ...opcode: number[]): Load<R> {
  return (address, byteOffset = 0) =>
    code(result, address.bytes, ...opcode, 0, unsigned(byteOffset));
}

function store<A extends ValueKind>(...opcode: number[]): Store<A> {
  return (address, value, byteOffset = 0) =>
    code('nothing', address.bytes, value.bytes, ...opcode, 0, unsigned(byteOffset));
}

const simd = (opcode: number): number[] => [SIMD_PREFIX, ...unsigned(opcode)];
function vectorUnary(name: string, opcode: number): Unary<'v128', 'v128'> {
  return (a) => vector(name, [a], [], a.bytes, ...simd(opcode));
}

function vectorBinary(name: string, opcode: number): Binary<'v128', 'v128'> {
  return (a, b) => vector(name, [a, b], [], a.bytes, b.bytes, ...simd(opcode));
}

function shift(name: string, opcode: number): (a: V128, bits: number) => V128 {
  return (a, bits) => vector(name, [a], [bits], a.bytes, i32.const(bits).bytes, ...simd(opcode));
}

function lane<R extends ValueKind>(result: R, opcode: number): (a: V128, lane: number) => Code<R> {
  return (a, index) => code(result, a.bytes, ...simd(opcode), index);
}

/** Instructions on integers of kind i32. */
export const i32: {
  const: (value: number) => I32;
  load: Load<'i32'>;
  load8u: Load<'i32'>;
  load16u: Load<'i32'>;
  store: Store<'i32'>;
  store8: Store<'i32'>;
  store16: Store<'i32'>;
  wrapI64: Unary<'i64', 'i32'>;
  truncSatF64S: Unary<'f64', 'i32'>;
} & Record<'eqz', Unary<'i32', 'i32'>> &
  Record<'add', Binary<'i32', 'i32'>> = {
  const: (value) => code('i32', 0x41, signed(value)),
  load: load('i32', 0x28),
  load8u: load('i32', 0x2d),
  load16u: load('i32', 0x2f),
  store: store(0x36),
  store8: store(0x3a),
  store16: store(0x3b),
  eqz: unary('i32', 0x45),
  add: binary('i32', 0x6a),
  wrapI64: unary('i32', 0xa7),
  truncSatF64S: unary('i32', 0xfc, 0x02),
};

/** Instructions on integers of kind i64. */
export const i64: {
  const: (value: number) => I64;
  load: Load<'i64'>;
  store: Store<'i64'>;
  ne: Binary<'i64', 'i32'>;
  extendI32S: Unary<'i32', 'i64'>;
  truncSatF32S: Unary<'f32', 'i64'>;
  truncSatF64S: Unary<'f64', 'i64'>;
} = {
  const: (value) => code('i64', 0x42, signed(value)),
  load: load('i64', 0x29),
  store: store(0x37),
  ne: binary('i32', 0x52),
  extendI32S: unary('i64', 0xac),
  truncSatF32S: unary('i64', 0xfc, 0x04),
  truncSatF64S: unary('i64', 0xfc, 0x06),
};

function byWidth(narrow: Bytes, wide: Bytes): Bytes {
  return [{ narrow, wide }];
}

function usizeBinary<R extends ValueKind>(
  result: R,
  narrow: number,
  wide: number,
): Binary<'usize', R> {
  return (a, b) => code(result, a.bytes, b.bytes, byWidth([narrow], [wide]));
}

/** Instructions on addresses, counts and numbers of bytes. */
export const usize: {
  /** A constant of 32 bits. Negative values wrap around. */
  const: (value: number) => Usize;
  /** Loads an address from memory. It is stored in the lowest bytes of eight. */
  load: Load<'usize'>;
  eqz: Unary<'usize', 'i32'>;
  /** Converts an i32. A negative value becomes larger than any size. */
  fromI32: Unary<'i32', 'usize'>;
  /** Returns the lowest 32 bits. */
  toI32: Unary<'usize', 'i32'>;
} & Record<'ltU' | 'geU', Binary<'usize', 'i32'>> &
  Record<'add' | 'sub' | 'mul' | 'and' | 'shl', Binary<'usize', 'usize'>> = {
  const: (value) => code('usize', byWidth([0x41], [0x42]), signed(value)),
  load: (address, byteOffset = 0) =>
    code('usize', address.bytes, byWidth([0x28], [0x29]), 0, unsigned(byteOffset)),
  eqz: (a) => code('i32', a.bytes, byWidth([0x45], [0x50])),
  fromI32: (a) => code('usize', a.bytes, byWidth([], [0xac])),
  toI32: (a) => code('i32', a.bytes, byWidth([], [0xa7])),
  ltU: usizeBinary('i32', 0x49, 0x54),
  geU: usizeBinary('i32', 0x4f, 0x5a),
  add: usizeBinary('usize', 0x6a, 0x7c),
  sub: usizeBinary('usize', 0x6b, 0x7d),
  mul: usizeBinary('usize', 0x6c, 0x7e),
  and: usizeBinary('usize', 0x71, 0x83),
  shl: usizeBinary('usize', 0x74, 0x86),
};

/** `copy` copies bytes between places that may overlap; `fill` sets all bytes to one value. */
export const memory: {
  copy: (target: Usize, source: Usize, byteLength: Usize) => Code<'nothing'>;
  fill: (target: Usize, byte: I32, byteLength: Usize) => Code<'nothing'>;
} = {
  copy: (target, source, byteLength) =>
    code('nothing', target.bytes, source.bytes, byteLength.bytes, 0xfc, 0x0a, 0, 0),
  fill: (target, byte, byteLength) =>
    code('nothing', target.bytes, byte.bytes, byteLength.bytes, 0xfc, 0x0b, 0),
};

/** Instructions on numbers of kind f32. */
export const f32: {
  load: Load<'f32'>;
  store: Store<'f32'>;
  add: Binary<'f32', 'f32'>;
  ne: Binary<'f32', 'i32'>;
  demote: Unary<'f64', 'f32'>;
  convertI64S: Unary<'i64', 'f32'>;
  convertUsize: Unary<'usize', 'f32'>;
} = {
  load: load('f32', 0x2a),
  store: store(0x38),
  ne: binary('i32', 0x5c),
  add: binary('f32', 0x92),
  demote: unary('f32', 0xb6),
  convertI64S: unary('f32', 0xb4),
  convertUsize: (a) => code('f32', a.bytes, byWidth([0xb3], [0xb5])),
};

/** Instructions on numbers of kind f64. */
export const f64: {
  const: (value: number) => F64;
  load: Load<'f64'>;
  store: Store<'f64'>;
  promote: Unary<'f32', 'f64'>;
  convertI32S: Unary<'i32', 'f64'>;
  convertI64S: Unary<'i64', 'f64'>;
  add: Binary<'f64', 'f64'>;
  ne: Binary<'f64', 'i32'>;
} = {
  const: (value) => code('f64', 0x44, ...float64Bytes(value)),
  load: load('f64', 0x2b),
  store: store(0x39),
  add: binary('f64', 0xa0),
  ne: binary('i32', 0x62),
  promote: unary('f64', 0xbb),
  convertI32S: unary('f64', 0xb7),
  convertI64S: unary('f64', 0xb9),
};

/** Instructions on whole vectors of 128 bits. */
export const v128: {
  load: Load<'v128'>;
  /** Loads one 32-bit value into all lanes. */
  load32Splat: Load<'v128'>;
  /** Loads one 32-bit value into lane 0. The other lanes are zero. */
  load32Zero: Load<'v128'>;
  /** Loads one 64-bit value into the low half. The high half is zero. */
  load64Zero: Load<'v128'>;
  store: Store<'v128'>;
  store32Lane0: Store<'v128'>;
  /** Stores the low 64 bits. */
  store64Lane0: Store<'v128'>;
  /** Loads four 16-bit values into 32-bit lanes, without signs. */
  load16x4u: Load<'v128'>;
  /** A constant with these four 32-bit lanes. */
  constInt: (lanes: readonly [number, number, number, number]) => V128;
  bitselect: (whenOne: V128, whenZero: V128, mask: V128) => V128;
} & Record<'not', Unary<'v128', 'v128'>> &
  Record<'and' | 'andnot' | 'or' | 'xor', Binary<'v128', 'v128'>> = {
  load: load('v128', ...simd(0x00)),
  load32Splat: load('v128', ...simd(0x09)),
  load32Zero: load('v128', ...simd(0x5c)),
  load64Zero: load('v128', ...simd(0x5d)),
  store: store(...simd(0x0b)),
  store32Lane0: (address, value, byteOffset = 0) =>
    code('nothing', address.bytes, value.bytes, ...simd(0x5a), 0, unsigned(byteOffset), 0),
  store64Lane0: (address, value, byteOffset = 0) =>
    code('nothing', address.bytes, value.bytes, ...simd(0x5b), 0, unsigned(byteOffset), 0),
  load16x4u: load('v128', ...simd(0x04)),
  constInt: (lanes) => vector('const', [], lanes, ...simd(0x0c), ...lanes.flatMap(int32Bytes)),
  not: vectorUnary('v128.not', 0x4d),
  and: vectorBinary('v128.and', 0x4e),
  /** Computes a & ~b. */
  andnot: vectorBinary('v128.andnot', 0x4f),
  or: vectorBinary('v128.or', 0x50),
  xor: vectorBinary('v128.xor', 0x51),
  bitselect: (whenOne, whenZero, mask) =>
    vector(
      'v128.bitselect',
      [whenOne, whenZero, mask],
      [],
      whenOne.bytes,
      whenZero.bytes,
      mask.bytes,
      ...simd(0x52),
    ),
};

type F32x4Unary =
  | ('abs' | 'neg' | 'sqrt' | 'ceil' | 'floor' | 'convertI32x4S')
  /** Converts two f64 lanes to the two low f32 lanes. The high lanes are zero. */
  | 'demoteF64x2Zero';
type F32x4Binary =
  | 'eq'
  | 'ne'
  | 'lt'
  | 'gt'
  | 'le'
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  /** The result is NaN if an operand is NaN. -0 is less than +0. */
  | 'min'
  | 'max'
  /** Computes b < a ? b : a. */
  | 'pmin'
  /** Computes a < b ? b : a. */
  | 'pmax';

/** Instructions on vectors of four f32. */
export const f32x4: {
  const: (value: number) => V128;
  splat: Unary<'f32', 'v128'>;
  extractLane: (a: V128, lane: number) => F32;
  /**
   * Computes a * b + c, rounded once or twice, whichever is faster on this machine. Not every engine has this
   * instruction.
   */
  relaxedMadd: (a: V128, b: V128, c: V128) => V128;
} & Record<F32x4Unary, Unary<'v128', 'v128'>> &
  Record<F32x4Binary, Binary<'v128', 'v128'>> = {
  const: (value) => {
    const lane = float32Bits(value);
    return v128.constInt([lane, lane, lane, lane]);
  },
  splat: unary('v128', ...simd(0x13)),
  extractLane: lane('f32', 0x1f),
  relaxedMadd: (a, b, c) =>
    vector('f32x4.relaxedMadd', [a, b, c], [], a.bytes, b.bytes, c.bytes, ...simd(0x105)),
  eq: vectorBinary('f32x4.eq', 0x41),
  ne: vectorBinary('f32x4.ne', 0x42),
  lt: vectorBinary('f32x4.lt', 0x43),
  gt: vectorBinary('f32x4.gt', 0x44),
  le: vectorBinary('f32x4.le', 0x45),
  ceil: vectorUnary('f32x4.ceil', 0x67),
  floor: vectorUnary('f32x4.floor', 0x68),
  abs: vectorUnary('f32x4.abs', 0xe0),
  neg: vectorUnary('f32x4.neg', 0xe1),
  sqrt: vectorUnary('f32x4.sqrt', 0xe3),
  add: vectorBinary('f32x4.add', 0xe4),
  sub: vectorBinary('f32x4.sub', 0xe5),
  mul: vectorBinary('f32x4.mul', 0xe6),
  div: vectorBinary('f32x4.div', 0xe7),
  min: vectorBinary('f32x4.min', 0xe8),
  max: vectorBinary('f32x4.max', 0xe9),
  pmin: vectorBinary('f32x4.pmin', 0xea),
  pmax: vectorBinary('f32x4.pmax', 0xeb),
  convertI32x4S: vectorUnary('f32x4.convertI32x4S', 0xfa),
  demoteF64x2Zero: vectorUnary('f32x4.demoteF64x2Zero', 0x5e),
};

/** Instructions on vectors of two f64. */
export const f64x2: {
  splat: Unary<'f64', 'v128'>;
  convertLowI32x4S: Unary<'v128', 'v128'>;
  /** Converts the two low f32 lanes. */
  promoteLowF32x4: Unary<'v128', 'v128'>;
} & Record<'add' | 'mul' | 'div' | 'min' | 'max', Binary<'v128', 'v128'>> = {
  splat: unary('v128', ...simd(0x14)),
  convertLowI32x4S: vectorUnary('f64x2.convertLowI32x4S', 0xfe),
  promoteLowF32x4: vectorUnary('f64x2.promoteLowF32x4', 0x5f),
  add: vectorBinary('f64x2.add', 0xf0),
  mul: vectorBinary('f64x2.mul', 0xf2),
  div: vectorBinary('f64x2.div', 0xf3),
  min: vectorBinary('f64x2.min', 0xf4),
  max: vectorBinary('f64x2.max', 0xf5),
};

type I32x4Unary = 'abs' | 'neg' | 'truncSatF32x4S' | 'truncSatF64x2SZero' | 'extendLowI16x8U';
type I32x4Binary = 'eq' | 'ne' | 'ltS' | 'leS' | 'add' | 'sub' | 'mul' | 'minS' | 'maxS';

/** Instructions on vectors of four integers of 32 bits. */
export const i32x4: {
  const: (value: number) => V128;
  splat: Unary<'i32', 'v128'>;
  extractLane: (a: V128, lane: number) => I32;
} & Record<'shl' | 'shrS' | 'shrU', (a: V128, bits: number) => V128> &
  Record<I32x4Unary, Unary<'v128', 'v128'>> &
  Record<I32x4Binary, Binary<'v128', 'v128'>> = {
  const: (value) => v128.constInt([value, value, value, value]),
  splat: unary('v128', ...simd(0x11)),
  extractLane: lane('i32', 0x1b),
  eq: vectorBinary('i32x4.eq', 0x37),
  ne: vectorBinary('i32x4.ne', 0x38),
  ltS: vectorBinary('i32x4.ltS', 0x39),
  leS: vectorBinary('i32x4.leS', 0x3d),
  abs: vectorUnary('i32x4.abs', 0xa0),
  neg: vectorUnary('i32x4.neg', 0xa1),
  extendLowI16x8U: vectorUnary('i32x4.extendLowI16x8U', 0xa9),
  shl: shift('i32x4.shl', 0xab),
  shrS: shift('i32x4.shrS', 0xac),
  shrU: shift('i32x4.shrU', 0xad),
  add: vectorBinary('i32x4.add', 0xae),
  sub: vectorBinary('i32x4.sub', 0xb1),
  mul: vectorBinary('i32x4.mul', 0xb5),
  minS: vectorBinary('i32x4.minS', 0xb6),
  maxS: vectorBinary('i32x4.maxS', 0xb8),
  truncSatF32x4S: vectorUnary('i32x4.truncSatF32x4S', 0xf8),
  truncSatF64x2SZero: vectorUnary('i32x4.truncSatF64x2SZero', 0xfc),
};

/** Instructions on vectors of eight integers of 16 bits. */
export const i16x8: {
  extendLowI8x16U: Unary<'v128', 'v128'>;
  narrowI32x4S: Binary<'v128', 'v128'>;
  /** Narrows signed lanes to unsigned ones. Values that fit in 16 bits without a sign are kept. */
  narrowI32x4U: Binary<'v128', 'v128'>;
} = {
  extendLowI8x16U: vectorUnary('i16x8.extendLowI8x16U', 0x89),
  narrowI32x4S: vectorBinary('i16x8.narrowI32x4S', 0x85),
  narrowI32x4U: vectorBinary('i16x8.narrowI32x4U', 0x86),
};

/** Instructions on vectors of sixteen integers of 8 bits. */
export const i8x16: {
  narrowI16x8S: Binary<'v128', 'v128'>;
  /** Narrows signed lanes to unsigned ones. Values that fit in 8 bits without a sign are kept. */
  narrowI16x8U: Binary<'v128', 'v128'>;
  shuffle: (a: V128, b: V128, lanes: readonly number[]) => V128;
} = {
  narrowI16x8S: vectorBinary('i8x16.narrowI16x8S', 0x65),
  narrowI16x8U: vectorBinary('i8x16.narrowI16x8U', 0x66),
  shuffle: (a, b, lanes) => code('v128', a.bytes, b.bytes, ...simd(0x0d), ...lanes),
};
