import { Code } from './code.ts';
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
import type { Label } from '../label.ts';

/**
 * The form `op r/m64, r64` has this opcode, and the form `op r64, m` has opcode + 2. The form `op r64, imm` has the
 * opcode 81, or 83 for a number of 8 bits, with `number` in place of a register.
 */
const arithmetic = {
  add: { opcode: 0x01, number: 0 },
  and: { opcode: 0x21, number: 4 },
  sub: { opcode: 0x29, number: 5 },
  xor: { opcode: 0x31, number: 6 },
  cmp: { opcode: 0x39, number: 7 },
} as const;

/** The low half of the second byte of a conditional jump. Numbers are compared as signed numbers. */
const conditions = { equal: 4, notEqual: 5, less: 0xc, notLess: 0xd, greater: 0xf } as const;

export type Condition = keyof typeof conditions;

/** Writes machine code of x86-64. Operands are in Intel's order: the target comes first. */
export class Assembler {
  readonly #code = new Code();

  label(): Label {
    return { byteOffset: undefined };
  }

  /** Places a label at the next instruction, after padding the code to a multiple of 16 bytes. */
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
      // The number has 32 bits. The processor extends its sign to 64 bits.
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

  /** Stores the low 32 bits of a register. */
  store32(target: Memory, source: Register): void {
    this.#integer(0x89, source.index, target, false);
  }

  /** Stores the low 16 bits of a register. */
  store16(target: Memory, source: Register): void {
    this.#code.byte(0x66);
    this.#integer(0x89, source.index, target, false);
  }

  /** Loads 16 bits from memory. The other bits of the register become 0. */
  load16(target: Register, source: Memory): void {
    this.#rex(target.index, source);
    this.#code.byte(0x0f, 0xb7);
    this.#code.operands(target.index, source);
  }

  /** Stores the low 8 bits of a register. */
  store8(target: Memory, source: Register): void {
    // Without the prefix, the register numbers 4 to 7 would mean ah, ch, dh and bh.
    this.#rex(source.index, target, false, source.index > 3);
    this.#code.byte(0x88);
    this.#code.operands(source.index, target);
  }

  /** Loads 8 bits from memory. The other bits of the register become 0. */
  load8(target: Register, source: Memory): void {
    this.#rex(target.index, source);
    this.#code.byte(0x0f, 0xb6);
    this.#code.operands(target.index, source);
  }

  /**
   * Loads the control register of floats from memory. It says how results are rounded, and whether denormal values are
   * kept.
   */
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

  /** Multiplies the target by the source. */
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

  /** Copies the low `count` bits of the source. The other bits of the target become 0. Belongs to BMI2. */
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

  /** Writes the address of a label to a register. */
  addressOf(target: Register, label: Label): void {
    this.#rex(target.index, 0);
    this.#code.byte(0x8d, 0x05 | ((target.index & 7) << 3));
    this.#code.distance(label);
  }

  ret(): void {
    this.#code.byte(0xc3);
  }

  /** Adds a register to memory that other threads may change at the same time. The register becomes what was there before. */
  lockXadd(target: Memory, source: Register): void {
    this.#code.byte(0xf0);
    this.#rex(source.index, target);
    this.#code.byte(0x0f, 0xc1);
    this.#code.operands(source.index, target);
  }

  /** Waits a little, for loops that look at memory until another thread changes it. */
  pause(): void {
    this.#code.byte(0xf3, 0x90);
  }

  /** Calls the system. rax: the number of the call, and then its result. Changes rcx and r11. */
  syscall(): void {
    this.#code.byte(0x0f, 0x05);
  }

  /**
   * Asks what the processor has. eax and ecx hold the numbers of the question. The answer is in eax, ebx, ecx and edx.
   */
  cpuid(): void {
    this.#code.byte(0x0f, 0xa2);
  }

  /** Asks which registers the system saves. ecx holds the number of the question. The answer is in eax and edx. */
  xgetbv(): void {
    this.#code.byte(0x0f, 0x01, 0xd0);
  }

  /** Asks for a line of memory, for the nearest cache or for the second one. */
  prefetch(address: Memory, cache: 'nearest' | 'second' = 'nearest'): void {
    this.#integerWithout(0x18, cache === 'nearest' ? 1 : 2, address);
  }

  /** Copies the low 32 bits of a register to a mask. */
  kmovd(target: Mask, source: Register): void {
    this.#code.byte(0xc4, 0xc1 | (((source.index >> 3) ^ 1) << 5), 0x7b, 0x92);
    this.#code.operands(target.index, source.index);
  }

  kshiftrd(target: Mask, source: Mask, bits: number): void {
    this.#code.byte(0xc4, 0xe3, 0x79, 0x31);
    this.#code.operands(target.index, source.index);
    this.#code.byte(bits);
  }

  /** Compares the low 16 bits of a mask with 0, for a jump. */
  kortestw(mask: Mask): void {
    this.#code.byte(0xc5, 0xf8, 0x98);
    this.#code.operands(mask.index, mask.index);
  }

  /** Finds the elements of some kinds, such as denormal values (kind 32). */
  vfpclassps(target: Mask, source: Vector, kinds: number): void {
    const encoding = { map: 3, prefix: 1, opcode: 0x66, evex: true } as const;
    encodeVector(this.#code, encoding, source.byteLength, target.index, 0, source);
    this.#code.byte(kinds);
  }

  /** Must come before code that uses the older vector instructions. */
  vzeroupper(): void {
    this.#code.byte(0xc5, 0xf8, 0x77);
  }

  /** target = f(first, second), where `name` is an instruction of the table `ternary`. */
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
    // A conversion to half the length is encoded with the length of its source.
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

  /** Stores the elements for which the highest bit of the mask's element is 1. */
  maskedStore(name: MaskedStore, target: Memory, mask: Vector, source: Vector): void {
    const { index, byteLength } = source;
    encodeVector(this.#code, maskedStores[name], byteLength, index, mask.index, target);
  }

  /** Copies half number `half` of a 32-byte vector to a 16-byte vector. */
  vextractf128(target: Vector, source: Vector, half: 0 | 1): void {
    const encoding = { map: 3, prefix: 1, opcode: 0x19 } as const;
    encodeVector(this.#code, encoding, source.byteLength, source.index, 0, target);
    this.#code.byte(half);
  }

  /** Copies the low 16 bits of each 32-bit element to a vector of half the length. */
  vpmovdw(target: Vector, source: Vector): void {
    encodeVector(this.#code, stores.vpmovdw, source.byteLength, source.index, 0, target);
  }

  shift(name: Shift, target: Vector, source: Vector, bits: number): void {
    const { part, ...encoding } = shifts[name];
    encodeVector(this.#code, encoding, target.byteLength, part, target.index, source);
    this.#code.byte(bits);
  }

  /** Sets all bits of the elements whose bit in the mask is 1, and clears the other elements. */
  vpmovm2d(target: Vector, source: Mask): void {
    const encoding = { map: 2, prefix: 2, opcode: 0x38, evex: true } as const;
    const rm = { ...target, index: source.index };
    encodeVector(this.#code, encoding, target.byteLength, target.index, 0, rm);
  }

  /** Copies the low 32 bits of a register to all elements. */
  vpbroadcastd(target: Vector, source: Register): void {
    const encoding = { map: 2, prefix: 1, opcode: 0x7c, evex: true } as const;
    const rm = { ...target, index: source.index };
    encodeVector(this.#code, encoding, target.byteLength, target.index, 0, rm);
  }

  /** Writes numbers of 32 bits into the code. */
  int32s(values: readonly number[]): void {
    for (const value of values) this.#code.int32(value);
  }

  /** Loads the sizes of all tiles from 64 bytes of memory. */
  ldtilecfg(source: Memory): void {
    this.#tiles(0, 0x49, 0, 0, source);
  }

  /** Frees all tiles. */
  tilerelease(): void {
    this.#tiles(0, 0x49, 0, 0, 0);
  }

  tilezero(target: Tile): void {
    this.#tiles(3, 0x49, target.index, 0, 0);
  }

  /**
   * Loads a tile. The first row begins at the base, and the index register holds the distance between rows, in bytes.
   */
  tileloadd(target: Tile, source: Memory): void {
    this.#tiles(3, 0x4b, target.index, 0, source);
  }

  tilestored(target: Memory, source: Tile): void {
    this.#tiles(2, 0x4b, source.index, 0, target);
  }

  /**
   * Multiplies 16 rows of 16 pairs of bf16 by 16 pairs of rows of 16 bf16, and adds the products to 16 x 16 sums of
   * f32.
   */
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

  /** Writes the prefix that holds the fourth bits of the registers' numbers. `wide` means operands of 64 bits. */
  #rex(reg: number, rm: number | Memory, wide = true, always = wide): void {
    const low = typeof rm === 'number' ? rm >> 3 : rm.base.index >> 3;
    const middle = typeof rm === 'number' ? 0 : (rm.index?.index ?? 0) >> 3;
    const rex = 0x40 | (wide ? 8 : 0) | ((reg >> 3) << 2) | (middle << 1) | low;
    if (always || rex !== 0x40) this.#code.byte(rex);
  }
}
