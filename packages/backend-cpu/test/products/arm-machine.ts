/**
 * Interprets the AArch64 machine code of matrix products, on memory of its own. It knows only the instructions that
 * this code consists of and throws on any other. Sums of `bfmmla` are exact here for small integers. The processor's
 * own rounding is not imitated.
 */
export class ArmMachine {
  readonly memory: DataView;
  /** The registers x0 to x30, followed by the stack pointer. */
  readonly registers = new Float64Array(32);
  readonly #vectors = new DataView(new ArrayBuffer(32 * 16));
  /** Whether the last difference was negative. `#isEqual` says whether it was 0. */
  #isLess = false;
  #isEqual = false;
  #at = 0;

  constructor(memory: ArrayBuffer) {
    this.memory = new DataView(memory);
  }

  /** Calls the function at `address` with one operand. The stack grows down from `stack`. */
  call(address: number, operand: number, stack: number): void {
    const end = -4;
    this.registers[0] = operand;
    this.registers[30] = end;
    this.registers[31] = stack;
    this.#at = address;
    while (this.#at !== end) {
      const word = this.memory.getUint32(this.#at, true);
      this.#at += 4;
      if (!(this.#jumps(word) || this.#sums(word) || this.#moves(word) || this.#computes(word))) {
        throw new Error(`no instruction that products have: ${word.toString(16)}`);
      }
    }
  }

  #x(index: number): number {
    return this.registers[index] ?? 0;
  }

  #jumps(word: number): boolean {
    const to = (bits: number, from: number): void => {
      this.#at += 4 * signed(word >>> from, bits) - 4;
    };
    if (word >>> 26 === 0b000101) to(26, 0);
    else if (word >>> 24 === 0x54) {
      if (this.#holds(word & 15)) to(19, 5);
    } else if (word >>> 24 === 0xb4) {
      if (this.#x(word & 31) === 0) to(19, 5);
    } else if (word >>> 24 === 0x36) {
      if (((this.#x(word & 31) >> field(word, 19, 5)) & 1) === 0) to(14, 5);
    } else if ((word & 0xffff_fc1f) >>> 0 === 0xd63f_0000) {
      this.registers[30] = this.#at;
      this.#at = this.#x(field(word, 5, 5));
    } else if (word === 0xd65f_03c0) this.#at = this.#x(30);
    else return false;
    return true;
  }

  #holds(condition: number): boolean {
    switch (condition) {
      case 0:
        return this.#isEqual;
      case 1:
        return !this.#isEqual;
      case 10:
        return !this.#isLess;
      case 11:
        return this.#isLess;
      default:
        return !this.#isLess && !this.#isEqual;
    }
  }

  #sums(word: number): boolean {
    const [target, first, second] = [word & 31, field(word, 5, 5), field(word, 16, 5)];
    const number = field(word, 10, 12);
    const compare = (difference: number): void => {
      this.#isLess = difference < 0;
      this.#isEqual = difference === 0;
      if (target !== 31) this.registers[target] = difference;
    };
    const shifted = this.#x(second) * 2 ** field(word, 10, 6);
    switch (word >>> 21) {
      case 0xd280_0000 >>> 21:
        this.registers[target] = field(word, 5, 16);
        return true;
      case 0xaa00_0000 >>> 21:
        this.registers[target] = this.#x(second);
        return true;
      case 0x8b00_0000 >>> 21:
        this.registers[target] = this.#x(first) + shifted;
        return true;
      case 0xcb00_0000 >>> 21:
        this.registers[target] = this.#x(first) - shifted;
        return true;
      case 0xeb00_0000 >>> 21:
        compare(this.#x(first) - shifted);
        return true;
      case 0x9a80_0000 >>> 21:
        this.registers[target] = this.#x(this.#holds(field(word, 12, 4)) ? first : second);
        return true;
      default:
    }
    switch (word >>> 22) {
      case 0x9100_0000 >>> 22:
        this.registers[target] = this.#x(first) + number;
        return true;
      case 0xd100_0000 >>> 22:
        this.registers[target] = this.#x(first) - number;
        return true;
      case 0xf100_0000 >>> 22:
        compare(this.#x(first) - number);
        return true;
      case 0xd340_0000 >>> 22:
        this.registers[target] = Math.floor(this.#x(first) / 2 ** field(word, 16, 6));
        return true;
      default:
        return false;
    }
  }

  #moves(word: number): boolean {
    const [register, base] = [word & 31, field(word, 5, 5)];
    const address = this.#x(base);
    const opcode = word >>> 21;
    const step = (bytes: number): void => {
      this.registers[base] = address + bytes;
    };
    for (const move of moves) {
      if (word >>> 22 === move.opcode >>> 22) {
        this.#move(move, register, address + field(word, 10, 12) * move.bytes);
        return true;
      }
      if (opcode === move.stepping >>> 21) {
        this.#move(move, register, address);
        step(signed(field(word, 12, 9), 9));
        return true;
      }
    }
    for (const pair of pairs) {
      if (word >>> 22 !== pair.opcode >>> 22) continue;
      const place = address + signed(field(word, 15, 7), 7) * pair.bytes;
      this.#move(pair, register, place);
      this.#move(pair, field(word, 10, 5), place + pair.bytes);
      return true;
    }
    const structure = (word & 0xffff_fc00) >>> 0;
    if (opcode === 0xf860_6800 >>> 21) {
      this.#move(generalLoad, register, address + this.#x(field(word, 16, 5)));
    } else if (structure === 0x4d40_c800 || structure === 0x4ddf_c800) {
      const bits = this.memory.getUint32(address, true);
      for (let lane = 0; lane < 4; lane++) this.#vectors.setUint32(16 * register + 4 * lane, bits);
      if (structure === 0x4ddf_c800) step(4);
    } else if (structure === 0x4ddf_8400) {
      for (let part = 0; part < 8; part += 4) {
        const bits = this.memory.getUint32(address + part, true);
        this.#vectors.setUint32(16 * register + 8 + part, bits);
      }
      step(8);
    } else if (structure === 0x0c00_0400 || structure === 0x4c00_0400) {
      const lanes = structure === 0x4c00_0400 ? 8 : 4;
      for (let index = 0; index < 4 * lanes; index++) {
        const half = this.#half(register + (index % 4), Math.floor(index / 4));
        this.memory.setUint16(address + 2 * index, half, true);
      }
    } else if ((structure & ~0x4000_1000) >>> 0 === 0x0d20_a000) {
      const element = 2 * field(word, 30, 1) + field(word, 12, 1);
      for (let index = 0; index < 4; index++) {
        const bits = this.#vectors.getUint32(16 * (register + index) + 4 * element);
        this.memory.setUint32(address + 4 * index, bits, true);
      }
    } else return false;
    return true;
  }

  /**
   * A vector register keeps its 32-bit words in lane order. The bytes of each word are in the opposite order of those
   * in memory.
   */
  #move({ isVector, isLoad, bytes }: Move, register: number, address: number): void {
    if (!isVector) {
      if (isLoad) {
        this.registers[register] =
          bytes === 8
            ? Number(this.memory.getBigInt64(address, true))
            : bytes === 4
              ? this.memory.getUint32(address, true)
              : this.memory.getUint16(address, true);
      } else if (bytes === 8) {
        this.memory.setBigInt64(address, BigInt(this.#x(register)), true);
      } else if (bytes === 4) this.memory.setUint32(address, this.#x(register), true);
      else this.memory.setUint16(address, this.#x(register), true);
      return;
    }
    for (let part = 0; part < 16; part += 4) {
      const place = 16 * register + part;
      if (isLoad) {
        const bits = part < bytes ? this.memory.getUint32(address + part, true) : 0;
        this.#vectors.setUint32(place, bits);
      } else if (part < bytes) {
        this.memory.setUint32(address + part, this.#vectors.getUint32(place), true);
      }
    }
  }

  #half(register: number, lane: number): number {
    return this.#vectors.getUint16(16 * register + ((2 * lane) ^ 2));
  }

  #computes(word: number): boolean {
    const [target, first, second] = [word & 31, field(word, 5, 5), field(word, 16, 5)];
    const lanesOf = (register: number): readonly number[] =>
      [0, 4, 8, 12].map((place) => this.#vectors.getFloat32(16 * register + place));
    const setLanes = (values: readonly number[]): void => {
      for (const [lane, value] of values.entries()) {
        this.#vectors.setFloat32(16 * target + 4 * lane, value);
      }
    };
    const combine = (f: (sum: number, left: number, right: number) => number): void => {
      const [sums, lefts, rights] = [lanesOf(target), lanesOf(first), lanesOf(second)];
      setLanes(sums.map((sum, lane) => f(sum, lefts[lane] ?? NaN, rights[lane] ?? NaN)));
    };
    const bf16 = (register: number, lane: number): number =>
      floatOf(this.#half(register, lane) << 16);
    if ((word & 0xffc0_f400) >>> 0 === 0x4f80_1000) {
      const factor = lanesOf(second)[field(word, 21, 1) + 2 * field(word, 11, 1)] ?? NaN;
      const lefts = lanesOf(first);
      setLanes(lanesOf(target).map((sum, lane) => sum + (lefts[lane] ?? NaN) * factor));
      return true;
    }
    switch ((word & 0xffe0_fc00) >>> 0) {
      case 0x4e20_cc00:
        combine((sum, left, right) => sum + left * right);
        return true;
      case 0x4e20_d400:
        combine((_, left, right) => left + right);
        return true;
      case 0x6e20_dc00:
        combine((_, left, right) => left * right);
        return true;
      case 0x6e40_ec00:
        setLanes(
          lanesOf(target).map((sum, lane) => {
            let more = sum;
            for (let k = 0; k < 4; k++) {
              more += bf16(first, 4 * (lane >> 1) + k) * bf16(second, 4 * (lane & 1) + k);
            }
            return more;
          }),
        );
        return true;
      case 0x4ec0_3800:
        setLanes([...lanesOf(first).slice(0, 2), ...lanesOf(second).slice(0, 2)]);
        return true;
      case 0x4ec0_7800:
        setLanes([...lanesOf(first).slice(2), ...lanesOf(second).slice(2)]);
        return true;
      case 0x4ea0_1c00:
        setLanes(lanesOf(first));
        return true;
      case 0x4f00_0400:
        setLanes([0, 0, 0, 0]);
        return true;
      default:
    }
    const unary = (word & 0xffff_fc00) >>> 0;
    if (unary === 0x0ea1_6800 || unary === 0x4ea1_6800) {
      const halves = lanesOf(first).map((value) => nearestBf16(value));
      const isHigh = unary === 0x4ea1_6800;
      for (const [lane, half] of halves.entries()) {
        this.#vectors.setUint16(16 * target + ((2 * lane) ^ 2) + (isHigh ? 8 : 0), half);
        if (!isHigh) this.#vectors.setUint16(16 * target + 8 + 2 * lane, 0);
      }
    } else if (unary === 0x2e61_3800) {
      setLanes([0, 1, 2, 3].map((lane) => bf16(first, lane)));
    } else return false;
    return true;
  }
}

interface Move {
  readonly opcode: number;
  readonly stepping: number;
  readonly bytes: 2 | 4 | 8 | 16;
  readonly isVector: boolean;
  readonly isLoad: boolean;
}

/** The codes from Arm's manual, first with an immediate offset, then with a post-increment. Bit 22 marks loads. */
const moves: readonly Move[] = (
  [
    [0xf900_0000, 0xf800_0400, 8, false],
    [0xb900_0000, 0xb800_0400, 4, false],
    [0x7900_0000, 0x7800_0400, 2, false],
    [0x3d80_0000, 0x3c80_0400, 16, true],
    [0xfd00_0000, 0xfc00_0400, 8, true],
  ] as const
).flatMap(([opcode, stepping, bytes, isVector]) => both(opcode, stepping, bytes, isVector));

const pairs: readonly Move[] = [
  ...both(0xa900_0000, 0, 8, false),
  ...both(0x6d00_0000, 0, 8, true),
  ...both(0xad00_0000, 0, 16, true),
];

function both(
  opcode: number,
  stepping: number,
  bytes: Move['bytes'],
  isVector: boolean,
): readonly [store: Move, load: Move] {
  const load = 0x0040_0000;
  return [
    { opcode, stepping, bytes, isVector, isLoad: false },
    { opcode: opcode + load, stepping: stepping + load, bytes, isVector, isLoad: true },
  ];
}

const generalLoad: Move = { opcode: 0, stepping: 0, bytes: 8, isVector: false, isLoad: true };

function field(word: number, from: number, bits: number): number {
  return (word >>> from) & (2 ** bits - 1);
}

function signed(value: number, bits: number): number {
  return (value << (32 - bits)) >> (32 - bits);
}

const cell = new DataView(new ArrayBuffer(4));

function floatOf(bits: number): number {
  cell.setInt32(0, bits);
  return cell.getFloat32(0);
}

/** Rounds a number to bf16. */
function nearestBf16(value: number): number {
  cell.setFloat32(0, value);
  const bits = cell.getUint32(0);
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
