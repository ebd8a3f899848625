import type { Assembler } from '../assembler.ts';
import { mask, type Memory, type Vector, ymm } from '../operands.ts';
import type { LoopVectors, Spares } from './loop-vectors.ts';
import type { Options, Ternary } from '../vector-instructions.ts';

/** A value in a register or in memory. With `broadcast`, the memory has one element that stands for all lanes. */
export type Source =
  | { readonly kind: 'vector'; readonly vector: Vector }
  | { readonly kind: 'memory'; readonly memory: Memory; readonly broadcast: boolean };

/** Where the operands of an operation are. They are numbered from 0. */
export interface Operands {
  readonly code: Assembler;
  readonly vectors: LoopVectors;
  /** Registers that are neither operands nor the target. There are two without AVX-512. */
  readonly spares: Spares;
  readonly bits: number;
  /** The comparison of a choice. Its two operands come behind the two operands that are chosen from. */
  readonly when: Comparison | null;
  /** The register of the result. It is not a register of the operands. */
  readonly target: Vector;
  /** Whether an operand is already in a register. */
  readonly isInRegister: (index: number) => boolean;
  /** Returns an operand in a register, which must not be changed. */
  readonly register: (index: number) => Vector;
  /** Returns an operand in a register or in memory. */
  readonly source: (index: number) => Source;
  /** Returns a value with these bits in all lanes. */
  readonly constant: (bits: number) => Source;
  /** Takes a function that writes code to which the loop rarely jumps. */
  readonly aside: (write: () => void) => void;
}

type Emit = (operands: Operands) => void;

/** The mask register for comparisons. k0 would stand for no mask, and k7 has the mask of the last columns. */
const chosen = mask(1);
const SIGN = -0x80000000;

function three(code: Assembler, name: Ternary, target: Vector, a: Vector, b: Source): void {
  if (b.kind === 'vector') code.ternary(name, target, a, b.vector);
  else code.ternary(name, target, a, b.memory, { broadcast: b.broadcast });
}

/** Emits an instruction. Operand `first` comes first, and then the other one. */
const ternary =
  (name: Ternary, first: 0 | 1 = 0): Emit =>
  (x) =>
    three(x.code, name, x.target, x.register(first), x.source(1 - first));

/** Like `ternary`, for operations whose operands may be exchanged. */
const either =
  (name: Ternary): Emit =>
  (x) => {
    const first = !x.isInRegister(0) && x.isInRegister(1) ? 1 : 0;
    three(x.code, name, x.target, x.register(first), x.source(1 - first));
  };

const withConstant =
  (name: Ternary, bits: number): Emit =>
  (x) =>
    three(x.code, name, x.target, x.register(0), x.constant(bits));

function compareTo({ code }: Operands, { name, predicate }: Predicate, a: Vector, b: Source): void {
  if (b.kind === 'vector') code.ternaryWith(name, chosen, a, b.vector, predicate);
  else {
    const { memory, broadcast } = b;
    code.ternaryWith(name, chosen, a, memory, predicate, { broadcast });
  }
}

/** Copies a value into a register. */
export function move(code: Assembler, target: Vector, from: Source, options?: Options): void {
  if (from.kind === 'vector') code.binary('vmovups', target, from.vector, options);
  else code.binary(from.broadcast ? 'vbroadcastss' : 'vmovups', target, from.memory, options);
}

/**
 * The minimum or the maximum as in WebAssembly: NaN if an operand is NaN, and -0 is less than +0. The instruction
 * depends on the order of its operands only for zeros and NaN.
 */
const extreme =
  (name: 'vminps' | 'vmaxps', join: 'vpord' | 'vpandd'): Emit =>
  (x) => {
    const { code, target } = x;
    const [a, b] = [x.register(0), x.register(1)];
    code.ternary(name, target, a, b);
    code.ternaryWith('vcmpps', chosen, a, b, ordered.equal);
    code.ternary(join, target, a, b, { mask: chosen });
    code.ternaryWith('vcmpps', chosen, a, b, ordered.unordered);
    code.ternary('vaddps', target, a, b, { mask: chosen });
  };

/** Predicates of vcmpps that do not signal for NaN. */
const ordered = { equal: 0, less: 17, lessEqual: 18, unordered: 3, notEqual: 4, greater: 30 };
const integers = { equal: 0, less: 1, lessEqual: 2, notEqual: 4 };

interface Predicate {
  readonly name: 'vcmpps' | 'vpcmpd';
  readonly predicate: number;
}

/** Operations that set all bits of a lane, or none. */
export type Comparison =
  | `f32x4.${'eq' | 'ne' | 'lt' | 'le' | 'gt'}`
  | `i32x4.${'eq' | 'ne' | 'ltS' | 'leS'}`;

const comparisons: Readonly<Record<Comparison, Predicate>> = {
  'f32x4.eq': { name: 'vcmpps', predicate: ordered.equal },
  'f32x4.ne': { name: 'vcmpps', predicate: ordered.notEqual },
  'f32x4.lt': { name: 'vcmpps', predicate: ordered.less },
  'f32x4.le': { name: 'vcmpps', predicate: ordered.lessEqual },
  'f32x4.gt': { name: 'vcmpps', predicate: ordered.greater },
  'i32x4.eq': { name: 'vpcmpd', predicate: integers.equal },
  'i32x4.ne': { name: 'vpcmpd', predicate: integers.notEqual },
  'i32x4.ltS': { name: 'vpcmpd', predicate: integers.less },
  'i32x4.leS': { name: 'vpcmpd', predicate: integers.lessEqual },
};

export function isComparison(name: string): name is Comparison {
  return name in comparisons;
}

/** Sets all bits of the lanes in which a comparison holds. */
function compare(x: Operands, comparison: Comparison): void {
  compareTo(x, comparisons[comparison], x.register(0), x.source(1));
  x.code.vpmovm2d(x.target, chosen);
}

/**
 * Takes the first operand in lanes where the third and the fourth operand compare as asked, and the second operand
 * elsewhere.
 */
function select(x: Operands, comparison: Comparison): void {
  const { code, target } = x;
  compareTo(x, comparisons[comparison], x.register(2), x.source(3));
  move(code, target, x.source(1));
  move(code, target, x.source(0), { mask: chosen });
}

const shift =
  (name: 'vpslld' | 'vpsrld' | 'vpsrad'): Emit =>
  ({ code, target, register, bits }) =>
    code.shift(name, target, register(0), bits);

type Both = 'add' | 'sub' | 'mul' | 'abs' | 'neg';
type OfFloats =
  | (Both | 'div' | 'min' | 'max' | 'pmin' | 'pmax')
  | ('sqrt' | 'floor' | 'ceil' | 'convertI32x4S');
type OfIntegers = Both | 'minS' | 'maxS' | 'shl' | 'shrU' | 'shrS' | 'truncSatF32x4S';
type OfBits = 'and' | 'or' | 'xor' | 'andnot' | 'not' | 'bitselect';
type Plain = `f32x4.${OfFloats}` | `i32x4.${OfIntegers}` | `v128.${OfBits}` | 'toBfloat16';

/** Operations on WebAssembly's vectors in which each lane depends only on the same lane of the operands. */
export type LaneOperation = Plain | Comparison;

/** The kind of values that `vfpclassps` finds: denormal ones. */
const DENORMAL = 32;

/**
 * Rounds f32 values to bf16. `use` takes them at the low end of a vector of half the length, or of the lanes of
 * `target`. The instruction for it takes denormal values for 0, so vectors with such values are rounded by integers.
 */
export function emitBfloat16(
  x: Pick<Operands, 'code' | 'vectors' | 'constant' | 'aside'>,
  value: Vector,
  target: Vector,
  use: { readonly halves: (half: Vector) => void; readonly lanes: () => void },
): void {
  const { code } = x;
  if (!x.vectors.roundsToBfloat16) {
    roundByIntegers(x, value, target);
    use.lanes();
    return;
  }
  const [rare, done] = [code.label(), code.label()];
  code.vfpclassps(chosen, value, DENORMAL);
  code.kortestw(chosen);
  code.jumpIf('notEqual', rare);
  const half = ymm(target.index);
  code.binary('vcvtneps2bf16', half, value);
  use.halves(half);
  code.place(done);
  x.aside(() => {
    code.place(rare);
    roundByIntegers(x, value, target);
    use.lanes();
    code.jump(done);
  });
}

function roundByIntegers(
  { code, constant }: Pick<Operands, 'code' | 'constant'>,
  value: Vector,
  target: Vector,
): void {
  code.shift('vpsrld', target, value, 16);
  three(code, 'vpandd', target, target, constant(1));
  code.ternary('vpaddd', target, target, value);
  three(code, 'vpaddd', target, target, constant(0x7fff));
  code.ternaryWith('vcmpps', chosen, value, value, ordered.unordered);
  const quiet = constant(QUIET);
  if (quiet.kind === 'memory') {
    code.ternary('vpord', target, value, quiet.memory, { mask: chosen, broadcast: true });
  }
  code.shift('vpsrld', target, target, 16);
}

/** The bit of an f32 that tells a NaN that signals nothing from one that does. */
const QUIET = 0x400000;

const operations: Readonly<Record<Plain, Emit>> = {
  'f32x4.add': either('vaddps'),
  'f32x4.sub': ternary('vsubps'),
  'f32x4.mul': either('vmulps'),
  'f32x4.div': ternary('vdivps'),
  'f32x4.pmin': ternary('vminps', 1),
  'f32x4.pmax': ternary('vmaxps', 1),
  'f32x4.min': extreme('vminps', 'vpord'),
  'f32x4.max': extreme('vmaxps', 'vpandd'),
  'f32x4.abs': withConstant('vpandd', ~SIGN),
  'f32x4.neg': withConstant('vpxord', SIGN),
  'f32x4.sqrt': ({ code, target, register }) => code.binary('vsqrtps', target, register(0)),
  'f32x4.floor': ({ code, target, register }) =>
    code.binaryWith('vrndscaleps', target, register(0), 9),
  'f32x4.ceil': ({ code, target, register }) =>
    code.binaryWith('vrndscaleps', target, register(0), 10),
  'f32x4.convertI32x4S': ({ code, target, register }) =>
    code.binary('vcvtdq2ps', target, register(0)),
  'i32x4.add': either('vpaddd'),
  'i32x4.sub': ternary('vpsubd'),
  'i32x4.mul': either('vpmulld'),
  'i32x4.minS': either('vpminsd'),
  'i32x4.maxS': either('vpmaxsd'),
  'i32x4.shl': shift('vpslld'),
  'i32x4.shrU': shift('vpsrld'),
  'i32x4.shrS': shift('vpsrad'),
  'i32x4.abs': ({ code, target, register }) => code.binary('vpabsd', target, register(0)),
  'i32x4.neg': ({ code, target, source }) => {
    code.ternary('vpxord', target, target, target);
    three(code, 'vpsubd', target, target, source(0));
  },
  // vcvttps2dq gives -2^31 for values that no i32 can hold. WebAssembly's result is 0 for NaN, and the largest i32 for
  // values above it.
  'i32x4.truncSatF32x4S': (x) => {
    const { code, target } = x;
    const value = x.register(0);
    code.ternaryWith('vcmpps', chosen, value, value, ordered.equal);
    code.binary('vcvttps2dq', target, value, { mask: chosen, zero: true });
    compareTo(x, { name: 'vcmpps', predicate: ordered.greater }, value, x.constant(0x4effffff));
    const largest = x.constant(0x7fffffff);
    if (largest.kind === 'memory') {
      code.binary('vbroadcastss', target, largest.memory, { mask: chosen });
    }
  },
  toBfloat16: (x) => {
    const { code, target } = x;
    emitBfloat16(x, x.register(0), target, {
      halves: (half) => code.binary('vpmovzxwd', target, half),
      lanes: () => undefined,
    });
  },
  'v128.and': either('vpandd'),
  'v128.or': either('vpord'),
  'v128.xor': either('vpxord'),
  'v128.andnot': ternary('vpandnd', 1),
  'v128.not': withConstant('vpxord', -1),
  'v128.bitselect': (x) => {
    const { code, target } = x;
    const [whenOne, whenZero] = [x.register(0), x.source(1)];
    move(code, target, x.source(2));
    const number = 0xca;
    if (whenZero.kind === 'vector') {
      code.ternaryWith('vpternlogd', target, whenOne, whenZero.vector, number);
    } else {
      const { memory, broadcast } = whenZero;
      code.ternaryWith('vpternlogd', target, whenOne, memory, number, { broadcast });
    }
  },
};

/** The operations for which AVX2 has other instructions. They need no mask registers. */
const narrowOperations: Readonly<Partial<Record<Plain, Emit>>> = {
  'f32x4.min': narrowExtreme('vminps', 'vorps'),
  'f32x4.max': narrowExtreme('vmaxps', 'vandps'),
  'f32x4.abs': withConstant('vandps', ~SIGN),
  'f32x4.neg': withConstant('vxorps', SIGN),
  'i32x4.neg': ({ code, target, source }) => {
    code.ternary('vxorps', target, target, target);
    three(code, 'vpsubd', target, target, source(0));
  },
  'i32x4.truncSatF32x4S': (x) => {
    const { code, target } = x;
    const [lanes] = x.spares;
    const value = x.register(0);
    code.ternaryWith('vcmpps', lanes, value, value, ordered.equal);
    code.binary('vcvttps2dq', target, value);
    code.ternary('vandps', target, target, lanes);
    withNumber(x, 'vcmpps', lanes, value, x.constant(0x4effffff), ordered.greater);
    withNumber(x, 'vblendvps', target, target, x.constant(0x7fffffff), 16 * lanes.index);
  },
  toBfloat16: (x) => {
    const { code, target } = x;
    const value = x.register(0);
    const [isNaN, quiet] = x.spares;
    code.shift('vpsrld', target, value, 16);
    three(code, 'vandps', target, target, x.constant(1));
    code.ternary('vpaddd', target, target, value);
    three(code, 'vpaddd', target, target, x.constant(0x7fff));
    code.ternaryWith('vcmpps', isNaN, value, value, ordered.unordered);
    three(code, 'vorps', quiet, value, x.constant(QUIET));
    code.ternaryWith('vblendvps', target, target, quiet, 16 * isNaN.index);
    code.shift('vpsrld', target, target, 16);
  },
  'v128.and': either('vandps'),
  'v128.or': either('vorps'),
  'v128.xor': either('vxorps'),
  'v128.andnot': ternary('vandnps', 1),
  'v128.not': withConstant('vxorps', -1),
  // The result is ((a ^ b) & c) ^ b. It has the bits of a where c has ones, and the bits of b elsewhere.
  'v128.bitselect': ({ code, target, register, source }) => {
    three(code, 'vxorps', target, register(0), source(1));
    three(code, 'vandps', target, target, source(2));
    three(code, 'vxorps', target, target, source(1));
  },
};

function withNumber(
  { code }: Operands,
  name: 'vcmpps' | 'vblendvps',
  target: Vector,
  a: Vector,
  b: Source,
  number: number,
): void {
  code.ternaryWith(name, target, a, b.kind === 'vector' ? b.vector : b.memory, number);
}

function narrowExtreme(name: 'vminps' | 'vmaxps', join: 'vorps' | 'vandps'): Emit {
  return ({ code, target, register, spares: [lanes, other] }) => {
    const [a, b] = [register(0), register(1)];
    const replaceWhere = (predicate: number): void => {
      code.ternaryWith('vcmpps', lanes, a, b, predicate);
      code.ternaryWith('vblendvps', target, target, other, 16 * lanes.index);
    };
    code.ternary(name, target, a, b);
    code.ternary(join, other, a, b);
    replaceWhere(ordered.equal);
    code.ternary('vaddps', other, a, b);
    replaceWhere(ordered.unordered);
  };
}

/** Sets all bits of the lanes in which a comparison holds. The target must not be a register of the operands. */
function narrowCompare(x: Operands, comparison: Comparison, target: Vector, first: number): void {
  const { code, register, source } = x;
  const { name, predicate } = comparisons[comparison];
  const second = first + 1;
  if (name === 'vcmpps') {
    withNumber(x, name, target, register(first), source(second), predicate);
    return;
  }
  const isEquality = predicate === integers.equal || predicate === integers.notEqual;
  if (isEquality) three(code, 'vpcmpeqd', target, register(first), source(second));
  else if (predicate === integers.less) {
    three(code, 'vpcmpgtd', target, register(second), source(first));
  } else three(code, 'vpcmpgtd', target, register(first), source(second));
  const isOpposite = predicate === integers.notEqual || predicate === integers.lessEqual;
  if (isOpposite) three(code, 'vxorps', target, target, x.constant(-1));
}

function emitNarrow(name: LaneOperation, x: Operands): void {
  if (x.when !== null) {
    const [lanes] = x.spares;
    narrowCompare(x, x.when, lanes, 2);
    withNumber(x, 'vblendvps', x.target, x.register(1), x.source(0), 16 * lanes.index);
  } else if (isComparison(name)) narrowCompare(x, name, x.target, 0);
  else (narrowOperations[name] ?? operations[name])(x);
}

export function isLaneOperation(name: string): name is LaneOperation {
  return name in operations || isComparison(name);
}

export function emitOperation(name: LaneOperation, operands: Operands): void {
  if (operands.vectors.instructions === 'AVX2') emitNarrow(name, operands);
  else if (operands.when !== null) select(operands, operands.when);
  else if (isComparison(name)) compare(operands, name);
  else operations[name](operands);
}
