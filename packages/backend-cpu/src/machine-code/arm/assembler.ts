import type { Label } from '../code.ts';
import { type ArmRegister, type ArmVector, stack } from './operands.ts';

/** Numbers are compared as signed ones. */
const conditions = { equal: 0, notEqual: 1, notLess: 10, less: 11, greater: 12 } as const;

export type ArmCondition = keyof typeof conditions;

/** Loads and stores by the bytes that they move: with a number of such units, and with a step of the address behind them. */
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

/** Of two registers. */
const pairMoves = {
  'ldp x': { opcode: 0xa940_0000, bytes: 8 },
  'stp x': { opcode: 0xa900_0000, bytes: 8 },
  'ldp d': { opcode: 0x6d40_0000, bytes: 8 },
  'stp d': { opcode: 0x6d00_0000, bytes: 8 },
  'ldp q': { opcode: 0xad40_0000, bytes: 16 },
  'stp q': { opcode: 0xad00_0000, bytes: 16 },
} as const;

/** target = f(first, second); the first two also add to the target. */
const ternary = {
  fmla: 0x4e20_cc00,
  /** Adds to 2 x 2 sums of f32 the products of 2 rows of 4 bf16 with 2 columns of 4. */
  bfmmla: 0x6e40_ec00,
  fadd: 0x4e20_d400,
  fmul: 0x6e20_dc00,
  /** The low halves of both. */
  'zip1 2d': 0x4ec0_3800,
  /** The high halves of both. */
  'zip2 2d': 0x4ec0_7800,
} as const;

/** target = f(source). */
const binary = {
  /** Four f32 as bf16, in the low half; the high half is 0. */
  bfcvtn: 0x0ea1_6800,
  /** And in the high half; the low half stays. */
  bfcvtn2: 0x4ea1_6800,
  /** The four elements of 16 bits in the low half as the high bits of ones of 32: bf16 as f32. */
  shll: 0x2e61_3800,
} as const;

/** Where the number of words from a jump to its label lies in the jump. */
type JumpField = { readonly bits: 26 | 19 | 14; readonly from: 0 | 5 };

const farField: JumpField = { bits: 26, from: 0 };
const nearField: JumpField = { bits: 19, from: 5 };
const bitField: JumpField = { bits: 14, from: 5 };

/**
 * Writes machine code of AArch64 (Arm Architecture Reference Manual, A64). The target stands first. Throws RangeError
 * for a number that an instruction has no place for.
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

  /** All of the code, with its jumps. Throws RangeError where one goes to a label that is nowhere, or too far away. */
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

  /** As `sub`, and jumps can depend on the difference from 0. */
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

  /** The first where the condition holds, else the second. */
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

  /** `name` of a register, and what lies `displacement` bytes behind the address: a multiple of what is moved. */
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

  /** As `move` at the address, which goes on by `bytes` then. */
  moveAndStep(
    name: keyof typeof moves,
    register: ArmRegister | ArmVector,
    address: ArmRegister,
    bytes: number,
  ): void {
    this.#word(moves[name].stepping, signed(bytes, 9) << 12, address.index << 5, register.index);
  }

  /** What lies at the sum of two registers. */
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

  /** An element of 4 bytes of memory in all of a vector's. */
  ld1r(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4d40_c800, address.index << 5, target.index);
  }

  /** And the address goes on by the element. */
  ld1rAndStep(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4ddf_c800, address.index << 5, target.index);
  }

  /** 8 bytes in the high half of a vector; the address goes on by them. */
  ld1HighAndStep(target: ArmVector, address: ArmRegister): void {
    this.#word(0x4ddf_8400, address.index << 5, target.index);
  }

  /** The elements of 2 bytes of four vectors in turn: four of each vector, or eight. */
  st4(first: ArmVector, elements: 4 | 8, address: ArmRegister): void {
    const whole = elements === 8 ? 0x4000_0000 : 0;
    this.#word(0x0c00_0400, whole, address.index << 5, first.index);
  }

  /** Element `element` of 4 bytes of four vectors. */
  st4Element(first: ArmVector, element: number, address: ArmRegister): void {
    const which = unsigned(element, 2);
    const place = ((which >> 1) << 30) | ((which & 1) << 12);
    this.#word(0x0d20_a000, place, address.index << 5, first.index);
  }

  /** Adds the products of the first's elements with one element of the second. */
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

  /** Where this bit of a register is 0. */
  jumpUnlessBit(register: ArmRegister, bit: number, target: Label): void {
    requireGeneral(register);
    const which = unsigned(bit, 5) << 19;
    this.#jump(0x3600_0000 | which | register.index, target, bitField);
  }

  /** Calls what lies at an address; x30 has the way back. */
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
    // Register 31 would be 0 here, but for comparisons, whose target is that.
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

/** Most instructions take register 31 for 0. */
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

/** The low bits of a number with its sign. */
function signed(value: number, bits: number): number {
  const most = 2 ** (bits - 1);
  if (!Number.isInteger(value) || value < -most || value >= most) {
    throw new RangeError(`${value} has no place in ${bits} bits with its sign`);
  }
  return value & (2 ** bits - 1);
}
