import type { Assembler } from '../assembler.ts';
import {
  at,
  type Memory,
  r10,
  r11,
  r8,
  r9,
  r12,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  type Register,
  rsi,
} from '../operands.ts';
import type { Source } from './emit-operation.ts';
import type { LaneLoop, LaneOperand } from '../../../lanes/lane-loop.ts';
import { LANES, type LoopVectors } from './loop-vectors.ts';
import { Slots } from './vector-registers.ts';
import type { Label } from '../../label.ts';
import { callWords } from '../../../lanes/loop-code.ts';

export const callWord = (word: number): Memory => at(rbp, 8 * word);

/** A number of a call. The indices behind the last number are its addresses. */
export const callNumber = (index: number): Memory => callWord(callWords.rows + index);

const addressRegisters: readonly Register[] = [rsi, rdi, r8, r9, r10, r11];

/** Whether the code of a call changes words of the call. It does if it has more addresses than registers for them. */
export function changesWords({ values }: { readonly values: readonly number[] }): boolean {
  return values.length > addressRegisters.length;
}

/**
 * Numbers that lie behind the code of a loop: the numbers of the lanes, lanes with all bits set, lanes without bits,
 * and then constants.
 */
class ConstantPool {
  readonly label: Label = { byteOffset: undefined };
  readonly #places = new Map<number, number>();
  readonly #numbers: number[] = [
    ...Array.from({ length: LANES }, (_, lane) => lane),
    ...Array.from({ length: LANES }, () => -1),
    ...Array.from({ length: LANES }, () => 0),
  ];
  /** How often each constant is stored: once if instructions can broadcast it, else once for each lane. */
  readonly #copies: number;

  constructor({ instructions, lanes }: LoopVectors) {
    this.#copies = instructions === 'AVX-512' ? 1 : lanes;
  }

  get numbers(): readonly number[] {
    return this.#numbers;
  }

  get laneNumbers(): Memory {
    return at(rbx);
  }

  /** Where the lanes without bits begin. The lanes with all bits set lie in front of them. */
  get behindAllLanes(): Memory {
    return at(rbx, 4 * 2 * LANES);
  }

  /** The place of a constant with these bits in all lanes. */
  constant(bits: number): Source & { readonly kind: 'memory' } {
    let place = this.#places.get(bits);
    if (place === undefined) {
      place = this.#numbers.length;
      for (let copy = 0; copy < this.#copies; copy++) this.#numbers.push(bits | 0);
      this.#places.set(bits, place);
    }
    return { kind: 'memory', memory: at(rbx, 4 * place), broadcast: this.#copies === 1 };
  }
}

/** The state that all passes of one loop share while they are written. */
export interface LoopFrame {
  readonly code: Assembler;
  readonly loop: LaneLoop;
  readonly vectors: LoopVectors;
  readonly pool: ConstantPool;
  readonly slots: Slots;
  /** Inputs of all rows that lie in memory as vectors: the number of columns, and the results of earlier folds. */
  readonly kept: Map<number, Memory>;
  /** The number of rows that are left, without those that the loop is at. */
  readonly rowsLeft: Memory;
  /** The flat index of the row's first element. */
  readonly rowStart: Memory;
  /** Memory for one vector. Every piece of code may overwrite it. */
  readonly scratch: Memory;
  /** Writers of code that is rarely run. It is placed behind the loop, and the loop jumps to it. */
  readonly aside: (() => void)[];
}

export function createFrame(code: Assembler, loop: LaneLoop, vectors: LoopVectors): LoopFrame {
  const slots = new Slots();
  return {
    code,
    loop,
    vectors,
    pool: new ConstantPool(vectors),
    slots,
    kept: new Map(),
    rowsLeft: slots.take(),
    rowStart: slots.take(),
    scratch: slots.take(),
    aside: [],
  };
}

/** One of the rows that a loop is at. */
export interface LoopRow {
  /** Its number among these rows. */
  readonly number: number;
  /** The current column, counted from the start of the first of these rows. */
  readonly column: Register;
  /** Inputs that lie in memory as vectors: those of all rows, and the results of this row's folds. */
  readonly kept: Map<number, Memory>;
}

const columnRegisters = [rcx, r12] as const;

/** The rows that a loop is at: one of them, or two. */
export function loopRows({ kept }: LoopFrame, count: 1 | 2): readonly LoopRow[] {
  return columnRegisters
    .slice(0, count)
    .map((column, number) => ({ number, column, kept: new Map(kept) }));
}

export function operandAt({ loop }: LoopFrame, operand: number): LaneOperand {
  const found = loop.operands[operand];
  if (found === undefined) throw new RangeError(`a loop has no operand ${operand}`);
  return found;
}

/** Returns a register that holds the address of an operand. If the address lies in memory, it is loaded into rax. */
export function addressIn({ code }: LoopFrame, operand: number): Register {
  const register = addressRegisters[operand];
  if (register !== undefined) return register;
  code.mov(rax, callWord(callWords.addresses + operand));
  return rax;
}

export function loadAddresses({ code, loop }: LoopFrame): void {
  for (const [operand, register] of addressRegisters.slice(0, loop.operands.length).entries()) {
    code.mov(register, callWord(callWords.addresses + operand));
  }
}

/** Replaces the address of an operand with the address of `moved`. */
export function advance(
  frame: LoopFrame,
  operand: number,
  moved: (from: Register) => Memory,
): void {
  const address = addressIn(frame, operand);
  frame.code.lea(address, moved(address));
  if (address === rax) frame.code.store(callWord(callWords.addresses + operand), rax);
}
