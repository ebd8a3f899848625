import type { Code } from './code.ts';
import type { Memory, Vector } from './operands.ts';

/** The table of the opcode: 0F, 0F 38 or 0F 3A. */
type OpcodeMap = 1 | 2 | 3;
/** The prefix of an opcode: none, 66, F3 or F2. */
type Prefix = 0 | 1 | 2 | 3;

/** How an instruction is encoded, from volume 2 of Intel's architecture manual. */
interface Encoding {
  readonly map: OpcodeMap;
  readonly prefix: Prefix;
  readonly opcode: number;
  readonly wide?: true;
  /**
   * How much memory the instruction reads or writes: a whole vector, half or a quarter of one, or one element of 4
   * bytes. Default: a whole vector.
   */
  readonly memory?: 'half' | 'quarter' | 'element';
  /** Whether only EVEX can encode the instruction. */
  readonly evex?: true;
}

export type Ternary =
  | ('vaddps' | 'vsubps' | 'vmulps' | 'vdivps' | 'vminps' | 'vmaxps')
  | ('vpaddd' | 'vpsubd' | 'vpmulld' | 'vpminsd' | 'vpmaxsd')
  | ('vpandd' | 'vpandnd')
  | ('vandps' | 'vandnps' | 'vorps' | 'vpcmpgtd' | 'vpcmpeqd' | 'vpackusdw' | 'vpackuswb')
  | ('vmaskmovps' | 'vpmaskmovd')
  | 'vxorps'
  | ('vfmadd231ps' | 'vfmadd213ps')
  | ('vpunpcklbw' | 'vpunpckhbw' | 'vpsubb' | 'vpcmpeqb' | 'vpshufb')
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
  /** The result is the second operand if neither is less than the other. */
  vminps: { map: 1, prefix: 0, opcode: 0x5d },
  /** The result is the second operand if neither is greater than the other. */
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
  /**
   * Sets all bits of an element where the first operand is greater, and none elsewhere. This and the next five only
   * take vectors of up to 32 bytes.
   */
  vpcmpgtd: { map: 1, prefix: 1, opcode: 0x66 },
  vpcmpeqd: { map: 1, prefix: 1, opcode: 0x76 },
  /** Packs elements of 4 bytes to elements of 2: four of the first operand, four of the second, and so on. */
  vpackusdw: { map: 2, prefix: 1, opcode: 0x2b },
  /** Packs elements of 2 bytes to elements of 1. */
  vpackuswb: { map: 1, prefix: 1, opcode: 0x67 },
  /**
   * Loads from memory the elements for which the highest bit of the first operand's element is 1. The others become 0.
   */
  vmaskmovps: { map: 2, prefix: 1, opcode: 0x2c },
  vpmaskmovd: { map: 2, prefix: 1, opcode: 0x8c },
  vxorps: { map: 1, prefix: 0, opcode: 0x57 },
  vfmadd231ps: { map: 2, prefix: 1, opcode: 0xb8 },
  /** target = target * first + second. */
  vfmadd213ps: { map: 2, prefix: 1, opcode: 0xa8 },
  /** Interleaves the bytes of the lower halves of each 16 bytes. The next one takes the upper halves. */
  vpunpcklbw: { map: 1, prefix: 1, opcode: 0x60 },
  vpunpckhbw: { map: 1, prefix: 1, opcode: 0x68 },
  vpsubb: { map: 1, prefix: 1, opcode: 0xf8 },
  vpcmpeqb: { map: 1, prefix: 1, opcode: 0x74 },
  /** Takes the bytes of each 16 bytes of the first operand that the second one numbers. */
  vpshufb: { map: 2, prefix: 1, opcode: 0x00 },
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
  | ('vpmovzxwd' | 'vpmovzxbd' | 'vpmovsxbd' | 'vcvtph2ps')
  | ('vsqrtps' | 'vcvtdq2ps' | 'vcvttps2dq' | 'vpabsd')
  | 'vcvtneps2bf16';

/** target = f(source). The instruction has the length of the target, but for vcvtneps2bf16. */
export const binary: Readonly<Record<Binary, Encoding>> = {
  vmovups: { map: 1, prefix: 0, opcode: 0x10 },
  vmovdqu16: { map: 1, prefix: 3, opcode: 0x6f, wide: true, evex: true },
  vbroadcastss: { map: 2, prefix: 1, opcode: 0x18, memory: 'element' },
  vpbroadcastd: { map: 2, prefix: 1, opcode: 0x58, memory: 'element', evex: true },
  /** Broadcasts an element of 2 bytes from memory. */
  vpbroadcastw: { map: 2, prefix: 1, opcode: 0x79 },
  vpmovzxwd: { map: 2, prefix: 1, opcode: 0x33, memory: 'half' },
  vpmovzxbd: { map: 2, prefix: 1, opcode: 0x31, memory: 'quarter' },
  vpmovsxbd: { map: 2, prefix: 1, opcode: 0x21, memory: 'quarter' },
  /** Converts numbers of f16 in a vector of half the length. */
  vcvtph2ps: { map: 2, prefix: 1, opcode: 0x13, memory: 'half' },
  vsqrtps: { map: 1, prefix: 0, opcode: 0x51 },
  vcvtdq2ps: { map: 1, prefix: 0, opcode: 0x5b },
  /** The result is -2^31 for values that no i32 can hold. */
  vcvttps2dq: { map: 1, prefix: 2, opcode: 0x5b },
  vpabsd: { map: 2, prefix: 1, opcode: 0x1e },
  /** Converts to a vector of half the length. */
  vcvtneps2bf16: { map: 2, prefix: 2, opcode: 0x72, evex: true },
};

export type Store = 'vmovups' | 'vmovdqu16' | 'vmovntps' | 'vmovlps' | 'vpmovdw' | 'vpmovdb';

/** memory = source. */
export const stores: Readonly<Record<Store, Encoding>> = {
  vmovups: { map: 1, prefix: 0, opcode: 0x11 },
  vmovdqu16: { map: 1, prefix: 3, opcode: 0x7f, wide: true, evex: true },
  /** Stores past the caches. The address must be a multiple of the vector's length. */
  vmovntps: { map: 1, prefix: 0, opcode: 0x2b },
  /** Stores the first two elements. */
  vmovlps: { map: 1, prefix: 0, opcode: 0x13 },
  /** Stores the low 16 bits of each 32-bit element. */
  vpmovdw: { map: 2, prefix: 2, opcode: 0x33, memory: 'half', evex: true },
  /** Stores the low 8 bits of each 32-bit element. */
  vpmovdb: { map: 2, prefix: 2, opcode: 0x31, memory: 'quarter', evex: true },
};

export type MaskedStore = 'vmaskmovps' | 'vpmaskmovd';

/** memory = source, for elements where the highest bit of the mask vector's element is 1. */
export const maskedStores: Readonly<Record<MaskedStore, Encoding>> = {
  vmaskmovps: { map: 2, prefix: 1, opcode: 0x2e },
  vpmaskmovd: { map: 2, prefix: 1, opcode: 0x8e },
};

export type TernaryWith =
  | ('vpternlogd' | 'vshuff32x4' | 'vcmpps' | 'vpcmpd')
  | ('vperm2f128' | 'vinsertf128' | 'vblendvps' | 'vpblendvb' | 'vinserti64x4' | 'vpinsrw');

/** target = f(first, second, number). With AVX-512, the target of a comparison is a mask. */
export const ternaryWith: Readonly<Record<TernaryWith, Encoding>> = {
  /**
   * Each bit of the result is bit 4 t + 2 f + s of the number, where t, f and s are bits of the target, the first and
   * the second operand.
   */
  vpternlogd: { map: 3, prefix: 1, opcode: 0x25, evex: true },
  /** Takes two 128-bit elements of the first operand, then two of the second. `number` has their indices. */
  vshuff32x4: { map: 3, prefix: 1, opcode: 0x23, evex: true },
  /** Without AVX-512, the target is a vector: all bits of a lane are set, or none. */
  vcmpps: { map: 1, prefix: 0, opcode: 0xc2 },
  vpcmpd: { map: 3, prefix: 1, opcode: 0x1f, evex: true },
  /**
   * Takes two halves of the operands. `number` has their indices: 0 and 1 of the first operand, 2 and 3 of the second.
   */
  vperm2f128: { map: 3, prefix: 1, opcode: 0x06 },
  /** Copies the first operand, but takes half number `number` from the second, of 16 bytes. */
  vinsertf128: { map: 3, prefix: 1, opcode: 0x18 },
  /**
   * Takes the second operand where the highest bit of the element of vector register `number` / 16 is 1, else the
   * first.
   */
  vblendvps: { map: 3, prefix: 1, opcode: 0x4a },
  vpblendvb: { map: 3, prefix: 1, opcode: 0x4c },
  /** Copies the first operand, but takes element number `number` of 2 bytes from memory. */
  vpinsrw: { map: 1, prefix: 1, opcode: 0xc4 },
  /** Copies the first operand, but takes half number `number` from the second. */
  vinserti64x4: { map: 3, prefix: 1, opcode: 0x3a, wide: true, evex: true },
};

export type BinaryWith = 'vrndscaleps' | 'vpermilps' | 'vpermq';

/** target = f(source, number). */
export const binaryWith: Readonly<Record<BinaryWith, Encoding>> = {
  /** Rounds to an integer: down for the number 9, up for 10. With vectors of 32 bytes it is `vroundps`. */
  vrndscaleps: { map: 3, prefix: 1, opcode: 0x08 },
  /** Reorders the elements of each 128 bits. `number` has their indices. */
  vpermilps: { map: 3, prefix: 1, opcode: 0x04 },
  /** Reorders the 8-byte elements of each 32 bytes. `number` has their indices. */
  vpermq: { map: 3, prefix: 1, opcode: 0x00, wide: true },
};

export type Shift = 'vpslld' | 'vpsrld' | 'vpsrad';

const shift = { map: 1, prefix: 1, opcode: 0x72 } as const;

/**
 * Shifts each 32-bit element by a number of bits. `part` belongs to the opcode, and stands where others have their
 * target.
 */
export const shifts: Readonly<Record<Shift, Encoding & { readonly part: number }>> = {
  vpslld: { ...shift, part: 6 },
  vpsrld: { ...shift, part: 2 },
  vpsrad: { ...shift, part: 4 },
};

/** Options that only AVX-512 instructions have. */
export interface Options {
  /** Elements whose bit is 0 keep their value, or become 0 with `zero`. Memory of such elements is not touched. */
  readonly mask?: { readonly index: number };
  readonly zero?: boolean;
  /** The source in memory is one element that stands for all. */
  readonly broadcast?: boolean;
}

/**
 * Encodes one instruction. `reg` is the operand that is always a register, `vvvv` the middle one, `rm` the one that may
 * be memory.
 */
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

/** Moves a bit of a register's number to its place in a prefix. Prefixes hold these bits inverted. */
const bit = (value: number, from: number, to: number): number => (((value >> from) & 1) ^ 1) << to;

/** The numbers whose bits extend `rm`: those of a vector, or of the base and the index of memory. */
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
