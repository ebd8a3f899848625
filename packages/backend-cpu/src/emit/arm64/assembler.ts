import { type ArmRegister, type ArmVector, stack } from './operands.ts';
import type { Label } from '../label.ts';

/** The codes of the conditions. Numbers are compared as signed numbers. */
const conditions = { equal: 0, notEqual: 1, notLess: 10, less: 11, greater: 12 } as const;

export type ArmCondition = keyof typeof conditions;

/**
 * Loads and stores, and how many bytes each moves. `opcode` takes an offset in units of these bytes. `stepping` changes
 * the address afterwards.
 */
const moves = {
  'ldr x': { opcode: 0xf940_0000, stepping: 0xf840_0400, bytes: 8 },
  'str x': { opcode: 0xf900_0000, stepping: 0xf800_0400, bytes: 8 },
  'ldr w': { opcode: 0xb940_0000, stepping: 0xb840_0400, bytes: 4 },
  'str w': { opcode: 0xb900_0000, stepping: 0xb800_0400, bytes: 4 },
  'ldrh w': { opcode: 0x7940_0000, stepping: 0x7840_0400, bytes: 2 },
  'strh w': { opcode: 0x7900_0000, stepping: 0x7800_0400, bytes: 2 },
  'ldr q': { opcode: 0x3dc0_0000, stepping: 0x3cc0_0400, bytes: 16 },
  'str q': { opcode: 0x3d80_0000, stepping: 0x3c80_0400, bytes: 16 },
  'ldr d': { opcode: 0xfd40_0000, stepping: 0xfc40_0400, bytes: 8 },
  'str d': { opcode: 0xfd00_0000, stepping: 0xfc00_0400, bytes: 8 },
} as const;

/** Loads and stores of two registers. `bytes` is the size of one of them. */
const pairMoves = {
  'ldp x': { opcode: 0xa940_0000, bytes: 8 },
  'stp x': { opcode: 0xa900_0000, bytes: 8 },
  'ldp d': { opcode: 0x6d40_0000, bytes: 8 },
  'stp d': { opcode: 0x6d00_0000, bytes: 8 },
  'ldp q': { opcode: 0xad40_0000, bytes: 16 },
  'stp q': { opcode: 0xad00_0000, bytes: 16 },
} as const;

/** target = f(first, second). fmla and bfmmla add to the target. */
const ternary = {
  fmla: 0x4e20_cc00,
  /** Multiplies 2 rows of 4 bf16 by 2 columns of 4 bf16, and adds the products to 2 x 2 sums of f32. */
  bfmmla: 0x6e40_ec00,
  fadd: 0x4e20_d400,
  fmul: 0x6e20_dc00,
  /** Joins the low halves of both operands. */
  'zip1 2d': 0x4ec0_3800,
  /** Joins the high halves of both operands. */
  'zip2 2d': 0x4ec0_7800,
} as const;

/** target = f(source). */
const binary = {
  /** Rounds four f32 to bf16, into the low half. The high half becomes 0. */
  bfcvtn: 0x0ea1_6800,
  /** Rounds four f32 to bf16, into the high half. The low half keeps its value. */
  bfcvtn2: 0x4ea1_6800,
  /** Converts four bf16 in the low half to f32: their 16 bits become the high bits of 32. */
  shll: 0x2e61_3800,
} as const;

/** The bits of a jump that hold the number of words from the jump to its label. */
type JumpField = { readonly bits: 26 | 19 | 14; readonly from: 0 | 5 };

const farField: JumpField = { bits: 26, from: 0 };
const nearField: JumpField = { bits: 19, from: 5 };
const bitField: JumpField = { bits: 14, from: 5 };

/**
 * Writes machine code of AArch64 (Arm Architecture Reference Manual, A64). The target is the first operand. Throws
 * RangeError for a number that does not fit in an instruction.
 */
export class ArmAssembler {
  readonly #words: number[] = [];
  readonly #jumps: { readonly word: number; readonly target: Label; readonly field: JumpField }[] =
    [];

  label(): Label {
    return { byteOffset: undefined };
  }

  place(label: Label = this.label()): Label {
    if (label.byteOffset !== undefined) throw new RangeError('a label is placed once');
    label.byteOffset = 4 * this.#words.length;
    return label;
  }

  /**
   * Returns the code with all jumps filled in. Throws RangeError if a jump's label has no place, or is too far away.
   */
  finish(): Uint8Array {
    const bytes = new Uint8Array(new ArrayBuffer(4 * this.#words.length));
    const view = new DataView(bytes.buffer);
    for (const [index, word] of this.#words.entries()) view.setUint32(4 * index, word, true);
    for (const { word, target, field } of this.#jumps) {
      if (target.byteOffset === undefined) throw new RangeError('a jump to a label without place');
      const distance = signed(target.byteOffset / 4 - word, field.bits);
      view.setUint32(4 * word, ((this.#words[word] ?? 0) | (distance << field.from)) >>> 0, true);
    }
    return bytes;
  }

  mov(target: ArmRegister, source: ArmRegister | number): void {
    if (typeof source === 'number') {
      this.#word(0xd280_0000, unsigned(source, 16) << 5, target.index);
      return;
    }
    requireGeneral(target, source);
    this.#word(0xaa00_03e0, source.index << 16, target.index);
  }

  add(target: ArmRegister, first: ArmRegister, second: ArmRegister | number, shift = 0): void {
    this.#sum(0x9100_0000, 0x8b00_0000, target, first, second, shift);
  }

  sub(target: ArmRegister, first: ArmRegister, second: ArmRegister | number): void {
    this.#sum(0xd100_0000, 0xcb00_0000, target, first, second, 0);
  }

  /** Like `sub`, but a conditional jump can follow, which compares the difference with 0. */
  subs(target: ArmRegister, first: ArmRegister, second: ArmRegister | number): void {
    requireGeneral(target);
    this.#sum(0xf100_0000, 0xeb00_0000, target, first, second, 0);
  }

  cmp(first: ArmRegister, second: ArmRegister | number): void {
    this.#sum(0xf100_0000, 0xeb00_0000, stack, first, second, 0);
  }

  lsr(target: ArmRegister, source: ArmRegister, bits: number): void {
    requireGeneral(target, source);
    this.#word(0xd340_fc00, unsigned(bits, 6) << 16, source.index << 5, target.index);
  }

  /** Takes the first register if the condition holds, else the second. */
  csel(
    target: ArmRegister,
    first: ArmRegister,
    second: ArmRegister,
    condition: ArmCondition,
  ): void {
    requireGeneral(target, first, second);
    this.#word(
      0x9a80_0000,
      second.index << 16,
      conditions[condition] << 12,
      first.index << 5,
      target.index,
    );
  }

  /**
   * Loads or stores a register, `displacement` bytes behind the address. The displacement must be a multiple of the
   * bytes that are moved.
   */
  move(
    name: keyof typeof moves,
    register: ArmRegister | ArmVector,
    address: ArmRegister,
    displacement = 0,
  ): void {
    const { opcode, bytes } = moves[name];
    const units = unsigned(displacement / bytes, 12);
    this.#word(opcode, units << 10, address.index << 5, register.index);
  }

  /** Loads or stores a register at the address. Then the address is increased by `bytes`. */
  moveAndStep(
    name: keyof typeof moves,
    register: ArmRegister | ArmVector,
    address: ArmRegister,
    bytes: number,
  ): void {
    this.#word(moves[name].stepping, signed(bytes, 9) << 12, address.index << 5, register.index);
  }

  /** Loads 8 bytes from the sum of two registers. */
  loadIndexed(target: ArmRegister, address: ArmRegister, index: ArmRegister): void {
    requireGeneral(target, index);
    this.#word(0xf860_6800, index.index << 16, address.index << 5, target.index);
  }

  movePair(
    name: keyof typeof pairMoves,
    first: ArmRegister | ArmVector,
    second: ArmRegister | ArmVector,
    address: ArmRegister,
    displacement = 0,
  ): void {
    const { opcode, bytes } = pairMoves[name];
    const units = signed(displacement / bytes, 7) << 15;
    this.#word(opcode, units, second.index << 10, address.index << 5, first.index);
  }

  /** Loads an element of 4 bytes into all elements of a vector. */
  ld1r(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4d40_c800, address.index << 5, target.index);
  }

  /** Like `ld1r`. Then the address is increased by the 4 bytes of the element. */
  ld1rAndStep(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4ddf_c800, address.index << 5, target.index);
  }

  /** Loads 8 bytes into the high half of a vector. Then the address is increased by 8. */
  ld1HighAndStep(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4ddf_8400, address.index << 5, target.index);
  }

  /**
   * Stores the 2-byte elements of four consecutive vectors, interleaved. It stores four or eight elements of each
   * vector.
   */
  st4(first: ArmVector, elements: 4 | 8, address: ArmRegister): void {
    const whole = elements === 8 ? 0x4000_0000 : 0;
    this.#word(0x0c00_0400, whole, address.index << 5, first.index);
  }

  /** Stores element `element`, of 4 bytes, of each of four consecutive vectors. The address is not changed. */
  st4Element(first: ArmVector, element: number, address: ArmRegister): void {
    const which = unsigned(element, 2);
    const place = ((which >> 1) << 30) | ((which & 1) << 12);
    this.#word(0x0d20_a000, place, address.index << 5, first.index);
  }

  /** Multiplies the elements of the first vector by one element of the second, and adds the products to the target. */
  fmlaByElement(target: ArmVector, first: ArmVector, second: ArmVector, element: number): void {
    const which = unsigned(element, 2);
    const place = ((which & 1) << 21) | ((which >> 1) << 11);
    this.#word(0x4f80_1000, place, second.index << 16, first.index << 5, target.index);
  }

  ternary(
    name: keyof typeof ternary,
    target: ArmVector,
    first: ArmVector,
    second: ArmVector,
  ): void {
    this.#word(ternary[name], second.index << 16, first.index << 5, target.index);
  }

  binary(name: keyof typeof binary, target: ArmVector, source: ArmVector): void {
    this.#word(binary[name], source.index << 5, target.index);
  }

  zero(target: ArmVector): void {
    this.#word(0x4f00_0400, target.index);
  }

  copy(target: ArmVector, source: ArmVector): void {
    this.#word(0x4ea0_1c00, source.index << 16, source.index << 5, target.index);
  }

  jump(target: Label): void {
    this.#jump(0x1400_0000, target, farField);
  }

  jumpIf(condition: ArmCondition, target: Label): void {
    this.#jump(0x5400_0000 | conditions[condition], target, nearField);
  }

  jumpIfZero(register: ArmRegister, target: Label): void {
    requireGeneral(register);
    this.#jump(0xb400_0000 | register.index, target, nearField);
  }

  /** Jumps if this bit of a register is 0. */
  jumpUnlessBit(register: ArmRegister, bit: number, target: Label): void {
    requireGeneral(register);
    const which = unsigned(bit, 5) << 19;
    this.#jump(0x3600_0000 | which | register.index, target, bitField);
  }

  /** Calls the code at an address. x30 gets the return address. */
  call(target: ArmRegister): void {
    requireGeneral(target);
    this.#word(0xd63f_0000, target.index << 5);
  }

  ret(): void {
    this.#word(0xd65f_03c0);
  }

  #sum(
    withNumber: number,
    withRegister: number,
    target: ArmRegister,
    first: ArmRegister,
    second: ArmRegister | number,
    shift: number,
  ): void {
    if (typeof second === 'number') {
      this.#word(withNumber, unsigned(second, 12) << 10, first.index << 5, target.index);
      return;
    }
    // As an operand here, register 31 would mean 0, not the stack pointer. Only comparisons have it as their target, on
    // purpose.
    requireGeneral(first, second);
    const operands = (second.index << 16) | (unsigned(shift, 6) << 10) | (first.index << 5);
    this.#word(withRegister, operands, target.index);
  }

  #jump(word: number, target: Label, field: JumpField): void {
    this.#jumps.push({ word: this.#words.length, target, field });
    this.#word(word);
  }

  #word(...parts: readonly number[]): void {
    this.#words.push(parts.reduce((word, part) => word | part, 0) >>> 0);
  }
}

/** Throws RangeError for register 31, which most instructions take for 0, not for the stack pointer. */
function requireGeneral(...registers: readonly ArmRegister[]): void {
  if (registers.some(({ index }) => index === stack.index)) {
    throw new RangeError('the stack pointer is no operand of this instruction');
  }
}

function unsigned(value: number, bits: number): number {
  if (!Number.isInteger(value) || value < 0 || value >= 2 ** bits) {
    throw new RangeError(`${value} has no place in ${bits} bits`);
  }
  return value;
}

/** The low bits of a signed number. Throws RangeError if the number does not fit. */
function signed(value: number, bits: number): number {
  const most = 2 ** (bits - 1);
  if (!Number.isInteger(value) || value < -most || value >= most) {
    throw new RangeError(`${value} has no place in ${bits} bits with its sign`);
  }
  return value & (2 ** bits - 1);
}
