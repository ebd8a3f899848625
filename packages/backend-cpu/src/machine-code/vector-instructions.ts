import type { Code } from './code.ts';
import type { Memory, Vector } from './operands.ts';

/** 0F, 0F 38 and 0F 3A: the tables of opcodes. */
type OpcodeMap = 1 | 2 | 3;
/** None, 66, F3 and F2: the prefix that an opcode has. */
type Prefix = 0 | 1 | 2 | 3;

/** How an instruction is encoded. From the manual of Intel's architecture, volume 2. */
interface Encoding {
  readonly map: OpcodeMap;
  readonly prefix: Prefix;
  readonly opcode: number;
  readonly wide?: true;
  /** What it reads or writes of memory: a whole vector, half or a quarter of one, or one element of 4 bytes. Default: a whole one. */
  readonly memory?: 'half' | 'quarter' | 'element';
  /** Only in EVEX. */
  readonly evex?: true;
}

export type Ternary =
  | ('vaddps' | 'vsubps' | 'vmulps' | 'vdivps' | 'vminps' | 'vmaxps')
  | ('vpaddd' | 'vpsubd' | 'vpmulld' | 'vpminsd' | 'vpmaxsd')
  | ('vpandd' | 'vpandnd')
  | ('vandps' | 'vandnps' | 'vorps' | 'vpcmpgtd' | 'vpcmpeqd' | 'vpackusdw' | 'vpackuswb')
  | ('vmaskmovps' | 'vpmaskmovd')
  | 'vxorps'
  | 'vfmadd231ps'
  | 'vunpcklps'
  | 'vunpckhps'
  | 'vunpcklpd'
  | 'vunpckhpd'
  | 'vpxord'
  | 'vpord'
  | 'vdpbf16ps'
  | 'vcvtne2ps2bf16';

/** target = f(first, second). */
export const ternary: Readonly<Record<Ternary, Encoding>> = {
  vaddps: { map: 1, prefix: 0, opcode: 0x58 },
  vsubps: { map: 1, prefix: 0, opcode: 0x5c },
  vmulps: { map: 1, prefix: 0, opcode: 0x59 },
  vdivps: { map: 1, prefix: 0, opcode: 0x5e },
  /** The second where neither is less than the other. */
  vminps: { map: 1, prefix: 0, opcode: 0x5d },
  /** The second where neither is greater than the other. */
  vmaxps: { map: 1, prefix: 0, opcode: 0x5f },
  vpaddd: { map: 1, prefix: 1, opcode: 0xfe },
  vpsubd: { map: 1, prefix: 1, opcode: 0xfa },
  vpmulld: { map: 2, prefix: 1, opcode: 0x40 },
  vpminsd: { map: 2, prefix: 1, opcode: 0x39 },
  vpmaxsd: { map: 2, prefix: 1, opcode: 0x3d },
  vpandd: { map: 1, prefix: 1, opcode: 0xdb, evex: true },
  /** ~first & second. */
  vpandnd: { map: 1, prefix: 1, opcode: 0xdf, evex: true },
  vandps: { map: 1, prefix: 0, opcode: 0x54 },
  vandnps: { map: 1, prefix: 0, opcode: 0x55 },
  vorps: { map: 1, prefix: 0, opcode: 0x56 },
  /** All bits where the first is greater, none elsewhere. Only of 32 bytes, and so for the next five. */
  vpcmpgtd: { map: 1, prefix: 1, opcode: 0x66 },
  vpcmpeqd: { map: 1, prefix: 1, opcode: 0x76 },
  /** Elements of 4 bytes as ones of 2: four of the first, four of the second, and so on. */
  vpackusdw: { map: 2, prefix: 1, opcode: 0x2b },
  /** Elements of 2 bytes as ones of 1. */
  vpackuswb: { map: 1, prefix: 1, opcode: 0x67 },
  /** From memory, the elements of which the highest bit of the first is 1; the others are 0. */
  vmaskmovps: { map: 2, prefix: 1, opcode: 0x2c },
  vpmaskmovd: { map: 2, prefix: 1, opcode: 0x8c },
  vxorps: { map: 1, prefix: 0, opcode: 0x57 },
  vfmadd231ps: { map: 2, prefix: 1, opcode: 0xb8 },
  vunpcklps: { map: 1, prefix: 0, opcode: 0x14 },
  vunpckhps: { map: 1, prefix: 0, opcode: 0x15 },
  vunpcklpd: { map: 1, prefix: 1, opcode: 0x14, wide: true },
  vunpckhpd: { map: 1, prefix: 1, opcode: 0x15, wide: true },
  vpxord: { map: 1, prefix: 1, opcode: 0xef, evex: true },
  vpord: { map: 1, prefix: 1, opcode: 0xeb, evex: true },
  vdpbf16ps: { map: 2, prefix: 2, opcode: 0x52, evex: true },
  vcvtne2ps2bf16: { map: 2, prefix: 3, opcode: 0x72, evex: true },
};

export type Binary =
  | 'vmovups'
  | 'vmovdqu16'
  | 'vbroadcastss'
  | 'vpbroadcastd'
  | 'vpbroadcastw'
  | ('vpmovzxwd' | 'vpmovzxbd')
  | ('vsqrtps' | 'vcvtdq2ps' | 'vcvttps2dq' | 'vpabsd')
  | 'vcvtneps2bf16';

/** target = f(source). The first operand is the vector of which the length is that of the instruction. */
export const binary: Readonly<Record<Binary, Encoding>> = {
  vmovups: { map: 1, prefix: 0, opcode: 0x10 },
  vmovdqu16: { map: 1, prefix: 3, opcode: 0x6f, wide: true, evex: true },
  vbroadcastss: { map: 2, prefix: 1, opcode: 0x18, memory: 'element' },
  vpbroadcastd: { map: 2, prefix: 1, opcode: 0x58, memory: 'element', evex: true },
  /** From memory, an element of 2 bytes. */
  vpbroadcastw: { map: 2, prefix: 1, opcode: 0x79 },
  vpmovzxwd: { map: 2, prefix: 1, opcode: 0x33, memory: 'half' },
  vpmovzxbd: { map: 2, prefix: 1, opcode: 0x31, memory: 'quarter' },
  vsqrtps: { map: 1, prefix: 0, opcode: 0x51 },
  vcvtdq2ps: { map: 1, prefix: 0, opcode: 0x5b },
  /** What no i32 is gives -2^31. */
  vcvttps2dq: { map: 1, prefix: 2, opcode: 0x5b },
  vpabsd: { map: 2, prefix: 1, opcode: 0x1e },
  /** From a vector to one of half its length. */
  vcvtneps2bf16: { map: 2, prefix: 2, opcode: 0x72, evex: true },
};

export type Store = 'vmovups' | 'vmovdqu16' | 'vmovntps' | 'vmovlps' | 'vpmovdw' | 'vpmovdb';

/** memory = source. */
export const stores: Readonly<Record<Store, Encoding>> = {
  vmovups: { map: 1, prefix: 0, opcode: 0x11 },
  vmovdqu16: { map: 1, prefix: 3, opcode: 0x7f, wide: true, evex: true },
  /** Past the caches, to an address that is a multiple of the vector's length. */
  vmovntps: { map: 1, prefix: 0, opcode: 0x2b },
  /** The first two elements. */
  vmovlps: { map: 1, prefix: 0, opcode: 0x13 },
  /** The low 16 bits of each element of 32. */
  vpmovdw: { map: 2, prefix: 2, opcode: 0x33, memory: 'half', evex: true },
  /** The low 8 bits of each element of 32. */
  vpmovdb: { map: 2, prefix: 2, opcode: 0x31, memory: 'quarter', evex: true },
};

export type MaskedStore = 'vmaskmovps' | 'vpmaskmovd';

/** memory = source, where the highest bit of an element of a vector is 1. */
export const maskedStores: Readonly<Record<MaskedStore, Encoding>> = {
  vmaskmovps: { map: 2, prefix: 1, opcode: 0x2e },
  vpmaskmovd: { map: 2, prefix: 1, opcode: 0x8e },
};

export type TernaryWith =
  | ('vpternlogd' | 'vshuff32x4' | 'vcmpps' | 'vpcmpd')
  | ('vperm2f128' | 'vblendvps' | 'vpblendvb' | 'vinserti64x4');

/** target = f(first, second, number). Comparisons have a mask as their target. */
export const ternaryWith: Readonly<Record<TernaryWith, Encoding>> = {
  /** Bit 4 t + 2 f + s of the number, of bits t of the target, f of the first and s of the second. */
  vpternlogd: { map: 3, prefix: 1, opcode: 0x25, evex: true },
  /** Elements of 128 bits: two of the first, then two of the second, by the numbers in `number`. */
  vshuff32x4: { map: 3, prefix: 1, opcode: 0x23, evex: true },
  /** Of 32 bytes: all bits of a lane, or none, in a vector. */
  vcmpps: { map: 1, prefix: 0, opcode: 0xc2 },
  vpcmpd: { map: 3, prefix: 1, opcode: 0x1f, evex: true },
  /** Halves of both, by the numbers in `number`: 0 and 1 of the first, 2 and 3 of the second. */
  vperm2f128: { map: 3, prefix: 1, opcode: 0x06 },
  /** The second where the highest bit of an element is 1 in the vector of index `number` / 16, else the first. */
  vblendvps: { map: 3, prefix: 1, opcode: 0x4a },
  vpblendvb: { map: 3, prefix: 1, opcode: 0x4c },
  /** The first with the half of this number taken from the second. */
  vinserti64x4: { map: 3, prefix: 1, opcode: 0x3a, wide: true, evex: true },
};

export type BinaryWith = 'vrndscaleps' | 'vpermilps' | 'vpermq';

/** target = f(source, number). */
export const binaryWith: Readonly<Record<BinaryWith, Encoding>> = {
  /** To an integer: 9 down, 10 up. Of 32 bytes it is `vroundps`. */
  vrndscaleps: { map: 3, prefix: 1, opcode: 0x08 },
  /** Elements of each 128 bits, by the numbers in `number`. */
  vpermilps: { map: 3, prefix: 1, opcode: 0x04 },
  /** Elements of 8 bytes of each 32, by the numbers in `number`. */
  vpermq: { map: 3, prefix: 1, opcode: 0x00, wide: true },
};

export type Shift = 'vpslld' | 'vpsrld' | 'vpsrad';

const shift = { map: 1, prefix: 1, opcode: 0x72 } as const;

/** Each element of 32 bits by a number of bits. `part` is a part of the opcode, where others have their target. */
export const shifts: Readonly<Record<Shift, Encoding & { readonly part: number }>> = {
  vpslld: { ...shift, part: 6 },
  vpsrld: { ...shift, part: 2 },
  vpsrad: { ...shift, part: 4 },
};

/** What AVX-512 adds to an instruction. */
export interface Options {
  /** Elements whose bit is 0 stay as they are, or become 0 with `zero`. Memory behind them is not touched. */
  readonly mask?: { readonly index: number };
  readonly zero?: boolean;
  /** The source in memory is one element, which stands for all. */
  readonly broadcast?: boolean;
}

/** One instruction: `reg` is the operand that is a vector always, `vvvv` the one between, `rm` the one that may be memory. */
export function encodeVector(
  code: Code,
  encoding: Encoding,
  byteLength: Vector['byteLength'],
  reg: number,
  vvvv: number,
  rm: Vector | Memory,
  options: Options = {},
): void {
  const isNewer = reg > 15 || vvvv > 15 || (rm.kind === 'vector' && rm.index > 15);
  const hasOptions = options.mask !== undefined || options.broadcast === true;
  if (encoding.evex === true || byteLength === 64 || isNewer || hasOptions) {
    evex(code, encoding, byteLength, reg, vvvv, rm, options);
  } else {
    vex(code, encoding, byteLength, reg, vvvv, rm);
  }
}

/** The fourth and fifth bit of a register's number, each where it is to go; these fields are stored inverted. */
const bit = (value: number, from: number, to: number): number => (((value >> from) & 1) ^ 1) << to;

/** The number of which bits extend `rm`: a vector's, or those of the base and the index. */
function extension(rm: Vector | Memory): { readonly low: number; readonly high: number } {
  return rm.kind === 'vector'
    ? { low: rm.index >> 3, high: rm.index >> 4 }
    : { low: rm.base.index >> 3, high: (rm.index?.index ?? 0) >> 3 };
}

function vex(
  code: Code,
  { map, prefix, opcode, wide }: Encoding,
  byteLength: Vector['byteLength'],
  reg: number,
  vvvv: number,
  rm: Vector | Memory,
): void {
  const { low } = extension(rm);
  const high = rm.kind === 'vector' ? 0 : extension(rm).high;
  const length = byteLength === 32 ? 4 : 0;
  code.byte(
    0xc4,
    bit(reg, 3, 7) | bit(high, 0, 6) | bit(low, 0, 5) | map,
    (wide === true ? 0x80 : 0) | ((~vvvv & 15) << 3) | length | prefix,
    opcode,
  );
  code.operands(reg, rm.kind === 'vector' ? rm.index : rm);
}

function evex(
  code: Code,
  { map, prefix, opcode, wide, memory }: Encoding,
  byteLength: Vector['byteLength'],
  reg: number,
  vvvv: number,
  rm: Vector | Memory,
  { mask, zero = false, broadcast = false }: Options,
): void {
  const { low, high } = extension(rm);
  const length = { 16: 0, 32: 0x20, 64: 0x40 }[byteLength];
  const readBytes = {
    whole: byteLength,
    half: byteLength / 2,
    quarter: byteLength / 4,
    element: 4,
  };
  code.byte(
    0x62,
    bit(reg, 3, 7) | bit(high, 0, 6) | bit(low, 0, 5) | bit(reg, 4, 4) | map,
    (wide === true ? 0x80 : 0) | ((~vvvv & 15) << 3) | 4 | prefix,
    (zero ? 0x80 : 0) | length | (broadcast ? 0x10 : 0) | bit(vvvv, 4, 3) | (mask?.index ?? 0),
    opcode,
  );
  code.operands(
    reg,
    rm.kind === 'vector' ? rm.index : rm,
    broadcast ? 4 : readBytes[memory ?? 'whole'],
  );
}
