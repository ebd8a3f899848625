import { Code, type Label } from './code.ts';
import type { Mask, Memory, Register, Tile, Vector } from './operands.ts';
import {
  binary,
  type Binary,
  binaryWith,
  type BinaryWith,
  encodeVector,
  type MaskedStore,
  maskedStores,
  type Options,
  type Shift,
  shifts,
  type Store,
  stores,
  type Ternary,
  ternary,
  ternaryWith,
  type TernaryWith,
} from './vector-instructions.ts';

/** op r/m64, r64 has this opcode; op r64, m has two more; op r64, imm is 81 with the number. */
const arithmetic = {
  add: { opcode: 0x01, number: 0 },
  and: { opcode: 0x21, number: 4 },
  sub: { opcode: 0x29, number: 5 },
  xor: { opcode: 0x31, number: 6 },
  cmp: { opcode: 0x39, number: 7 },
} as const;

/** The low half of the second byte of a jump. Numbers are compared as signed ones. */
const conditions = { equal: 4, notEqual: 5, less: 0xc, notLess: 0xd, greater: 0xf } as const;

export type Condition = keyof typeof conditions;

/** Writes machine code of x86-64. Operands stand in Intel's order: the target first. */
export class Assembler {
  readonly #code = new Code();

  label(): Label {
    return { byteOffset: undefined };
  }

  /** A label at the next instruction, whose address is a multiple of 16. */
  entry(label: Label = this.label()): Label {
    while (this.#code.byteLength % 16 !== 0) this.#code.byte(0x90);
    this.#code.place(label);
    return label;
  }

  place(label: Label): Label {
    this.#code.place(label);
    return label;
  }

  finish(): Uint8Array {
    return this.#code.finish();
  }

  mov(target: Register, source: Register | Memory | number): void {
    if (typeof source === 'number') {
      // A number of 32 bits, with its sign.
      this.#rex(0, target.index);
      this.#code.byte(0xc7);
      this.#code.operands(0, target.index);
      this.#code.int32(source);
    } else if (source.kind === 'memory') this.#integer(0x8b, target.index, source);
    else this.#integer(0x89, source.index, target);
  }

  store(target: Memory, source: Register): void {
    this.#integer(0x89, source.index, target);
  }

  /** Of 32 bits. */
  store32(target: Memory, source: Register): void {
    this.#integer(0x89, source.index, target, false);
  }

  /** Of 16 bits. */
  store16(target: Memory, source: Register): void {
    this.#code.byte(0x66);
    this.#integer(0x89, source.index, target, false);
  }

  /** Of 16 bits of memory; the others are 0. */
  load16(target: Register, source: Memory): void {
    this.#rex(target.index, source);
    this.#code.byte(0x0f, 0xb7);
    this.#code.operands(target.index, source);
  }

  /** Of 8 bits. */
  store8(target: Memory, source: Register): void {
    // Without the prefix, numbers from 4 on are other parts of registers.
    this.#rex(source.index, target, false, source.index > 3);
    this.#code.byte(0x88);
    this.#code.operands(source.index, target);
  }

  /** Of 8 bits of memory; the others are 0. */
  load8(target: Register, source: Memory): void {
    this.#rex(target.index, source);
    this.#code.byte(0x0f, 0xb6);
    this.#code.operands(target.index, source);
  }

  /** How sums of floats are rounded, and whether they have denormal values: takes it from memory. */
  ldmxcsr(source: Memory): void {
    this.#integerWithout(0xae, 2, source);
  }

  stmxcsr(target: Memory): void {
    this.#integerWithout(0xae, 3, target);
  }

  lea(target: Register, address: Memory): void {
    this.#integer(0x8d, target.index, address);
  }

  add(target: Register, source: Register | Memory | number): void {
    this.#arithmetic('add', target, source);
  }

  sub(target: Register, source: Register | Memory | number): void {
    this.#arithmetic('sub', target, source);
  }

  and(target: Register, source: Register | Memory | number): void {
    this.#arithmetic('and', target, source);
  }

  xor(target: Register, source: Register | Memory | number): void {
    this.#arithmetic('xor', target, source);
  }

  cmp(first: Register, second: Register | Memory | number): void {
    this.#arithmetic('cmp', first, second);
  }

  /** The product of target and source. */
  imul(target: Register, source: Register | Memory): void {
    const rm = source.kind === 'memory' ? source : source.index;
    this.#rex(target.index, rm);
    this.#code.byte(0x0f, 0xaf);
    this.#code.operands(target.index, rm);
  }

  shl(target: Register, bits: number): void {
    this.#shift(4, target, bits);
  }

  shr(target: Register, bits: number): void {
    this.#shift(5, target, bits);
  }

  /** The low `count` bits are those of the source, the others are 0. (BMI2) */
  bzhi(target: Register, source: Register, count: Register): void {
    this.#code.byte(
      0xc4,
      (((target.index >> 3) ^ 1) << 7) | 0x40 | (((source.index >> 3) ^ 1) << 5) | 2,
      0x80 | ((~count.index & 15) << 3),
      0xf5,
    );
    this.#code.operands(target.index, source.index);
  }

  push(source: Register): void {
    if (source.index > 7) this.#code.byte(0x41);
    this.#code.byte(0x50 | (source.index & 7));
  }

  pop(target: Register): void {
    if (target.index > 7) this.#code.byte(0x41);
    this.#code.byte(0x58 | (target.index & 7));
  }

  jump(target: Label): void {
    this.#code.byte(0xe9);
    this.#code.distance(target);
  }

  jumpIf(condition: Condition, target: Label): void {
    this.#code.byte(0x0f, 0x80 | conditions[condition]);
    this.#code.distance(target);
  }

  call(target: Label | Register): void {
    if (!('kind' in target)) {
      this.#code.byte(0xe8);
      this.#code.distance(target);
      return;
    }
    if (target.index > 7) this.#code.byte(0x41);
    this.#code.byte(0xff);
    this.#code.operands(2, target.index);
  }

  /** The address of a label. */
  addressOf(target: Register, label: Label): void {
    this.#rex(target.index, 0);
    this.#code.byte(0x8d, 0x05 | ((target.index & 7) << 3));
    this.#code.distance(label);
  }

  ret(): void {
    this.#code.byte(0xc3);
  }

  /** What the processor has, by the numbers in eax and ecx; in eax, ebx, ecx and edx. */
  cpuid(): void {
    this.#code.byte(0x0f, 0xa2);
  }

  /** Which registers the system saves, by ecx; in eax and edx. */
  xgetbv(): void {
    this.#code.byte(0x0f, 0x01, 0xd0);
  }

  prefetch(address: Memory): void {
    this.#integerWithout(0x18, 1, address);
  }

  /** The low 32 bits of a register. */
  kmovd(target: Mask, source: Register): void {
    this.#code.byte(0xc4, 0xc1 | (((source.index >> 3) ^ 1) << 5), 0x7b, 0x92);
    this.#code.operands(target.index, source.index);
  }

  kshiftrd(target: Mask, source: Mask, bits: number): void {
    this.#code.byte(0xc4, 0xe3, 0x79, 0x31);
    this.#code.operands(target.index, source.index);
    this.#code.byte(bits);
  }

  /** Before code that uses the older vector instructions. */
  vzeroupper(): void {
    this.#code.byte(0xc5, 0xf8, 0x77);
  }

  /** target = f(first, second), with `name` one of the instructions of the table. */
  ternary(
    name: Ternary,
    target: Vector,
    first: Vector,
    second: Vector | Memory,
    options?: Options,
  ): void {
    const { index, byteLength } = target;
    encodeVector(this.#code, ternary[name], byteLength, index, first.index, second, options);
  }

  /** target = f(source). */
  binary(name: Binary, target: Vector, source: Vector | Memory, options?: Options): void {
    // A conversion that halves is encoded with the length of what it reads.
    const halves = name === 'vcvtneps2bf16';
    const byteLength = halves && target.byteLength === 32 ? 64 : target.byteLength;
    encodeVector(this.#code, binary[name], byteLength, target.index, 0, source, options);
  }

  vstore(name: Store, target: Memory, source: Vector, options?: Options): void {
    const { index, byteLength } = source;
    encodeVector(this.#code, stores[name], byteLength, index, 0, target, options);
  }

  /** target = f(first, second, number). */
  ternaryWith(
    name: TernaryWith,
    target: Vector | Mask,
    first: Vector,
    second: Vector | Memory,
    number: number,
    options?: Options,
  ): void {
    const encoding = ternaryWith[name];
    encodeVector(
      this.#code,
      encoding,
      first.byteLength,
      target.index,
      first.index,
      second,
      options,
    );
    this.#code.byte(number);
  }

  /** target = f(source, number). */
  binaryWith(name: BinaryWith, target: Vector, source: Vector | Memory, number: number): void {
    encodeVector(this.#code, binaryWith[name], target.byteLength, target.index, 0, source);
    this.#code.byte(number);
  }

  /** The elements of which the highest bit in the mask is 1. */
  maskedStore(name: MaskedStore, target: Memory, mask: Vector, source: Vector): void {
    const { index, byteLength } = source;
    encodeVector(this.#code, maskedStores[name], byteLength, index, mask.index, target);
  }

  /** The half of this number of a vector of 32 bytes, as one of 16. */
  vextractf128(target: Vector, source: Vector, half: 0 | 1): void {
    const encoding = { map: 3, prefix: 1, opcode: 0x19 } as const;
    encodeVector(this.#code, encoding, source.byteLength, source.index, 0, target);
    this.#code.byte(half);
  }

  /** The low 16 bits of each element of 32, in a vector of half the length. */
  vpmovdw(target: Vector, source: Vector): void {
    encodeVector(this.#code, stores.vpmovdw, source.byteLength, source.index, 0, target);
  }

  shift(name: Shift, target: Vector, source: Vector, bits: number): void {
    const { part, ...encoding } = shifts[name];
    encodeVector(this.#code, encoding, target.byteLength, part, target.index, source);
    this.#code.byte(bits);
  }

  /** All bits of the elements whose bit of the mask is 1, none of the others. */
  vpmovm2d(target: Vector, source: Mask): void {
    const encoding = { map: 2, prefix: 2, opcode: 0x38, evex: true } as const;
    const rm = { ...target, index: source.index };
    encodeVector(this.#code, encoding, target.byteLength, target.index, 0, rm);
  }

  /** The low 32 bits of a register in all elements. */
  vpbroadcastd(target: Vector, source: Register): void {
    const encoding = { map: 2, prefix: 1, opcode: 0x7c, evex: true } as const;
    const rm = { ...target, index: source.index };
    encodeVector(this.#code, encoding, target.byteLength, target.index, 0, rm);
  }

  /** Numbers of 32 bits that lie in the code. */
  int32s(values: readonly number[]): void {
    for (const value of values) this.#code.int32(value);
  }

  /** Takes the sizes of all tiles from 64 bytes of memory. */
  ldtilecfg(source: Memory): void {
    this.#tiles(0, 0x49, 0, 0, source);
  }

  /** Lets all tiles go. */
  tilerelease(): void {
    this.#tiles(0, 0x49, 0, 0, 0);
  }

  tilezero(target: Tile): void {
    this.#tiles(3, 0x49, target.index, 0, 0);
  }

  /** Rows begin at the base, as far from each other as the index says. */
  tileloadd(target: Tile, source: Memory): void {
    this.#tiles(3, 0x4b, target.index, 0, source);
  }

  tilestored(target: Memory, source: Tile): void {
    this.#tiles(2, 0x4b, source.index, 0, target);
  }

  /** Adds to 16 x 16 sums of f32 the products of 16 rows of 16 pairs of bf16 with 16 pairs of rows of 16. */
  tdpbf16ps(target: Tile, left: Tile, right: Tile): void {
    this.#tiles(2, 0x5c, target.index, right.index, left.index);
  }

  #tiles(prefix: number, opcode: number, reg: number, vvvv: number, rm: number | Memory): void {
    const low = typeof rm === 'number' ? 0 : rm.base.index >> 3;
    const middle = typeof rm === 'number' ? 0 : (rm.index?.index ?? 0) >> 3;
    const extensions = 0x80 | ((middle ^ 1) << 6) | ((low ^ 1) << 5);
    this.#code.byte(0xc4, extensions | 2, ((~vvvv & 15) << 3) | prefix, opcode);
    this.#code.operands(reg, rm);
  }

  #arithmetic(
    name: keyof typeof arithmetic,
    target: Register,
    source: Register | Memory | number,
  ): void {
    const { opcode, number } = arithmetic[name];
    if (typeof source === 'number') {
      this.#rex(0, target.index);
      const isShort = source >= -128 && source <= 127;
      this.#code.byte(isShort ? 0x83 : 0x81);
      this.#code.operands(number, target.index);
      if (isShort) this.#code.byte(source & 0xff);
      else this.#code.int32(source);
    } else if (source.kind === 'memory') this.#integer(opcode + 2, target.index, source);
    else this.#integer(opcode, source.index, target);
  }

  #shift(number: number, target: Register, bits: number): void {
    this.#rex(0, target.index);
    this.#code.byte(0xc1);
    this.#code.operands(number, target.index);
    this.#code.byte(bits);
  }

  #integer(opcode: number, reg: number, rm: Register | Memory, wide = true): void {
    const operand = rm.kind === 'memory' ? rm : rm.index;
    this.#rex(reg, operand, wide);
    this.#code.byte(opcode);
    this.#code.operands(reg, operand);
  }

  #integerWithout(opcode: number, reg: number, rm: Memory): void {
    const { base, index } = rm;
    const rex = 0x40 | (((index?.index ?? 0) >> 3) << 1) | (base.index >> 3);
    if (rex !== 0x40) this.#code.byte(rex);
    this.#code.byte(0x0f, opcode);
    this.#code.operands(reg, rm);
  }

  /** The prefix with the fourth bits of the registers' numbers; `wide` for operands of 64 bits. */
  #rex(reg: number, rm: number | Memory, wide = true, always = wide): void {
    const low = typeof rm === 'number' ? rm >> 3 : rm.base.index >> 3;
    const middle = typeof rm === 'number' ? 0 : (rm.index?.index ?? 0) >> 3;
    const rex = 0x40 | (wide ? 8 : 0) | ((reg >> 3) << 2) | (middle << 1) | low;
    if (always || rex !== 0x40) this.#code.byte(rex);
  }
}
