import type { Memory, Register, Vector } from '../../machine-code/operands.ts';
import type { Packing } from '../product-types.ts';

/**
 * The vector registers of a processor, as routines of products use them: each of these methods writes instructions. Lanes are
 * elements of 4 bytes. All of them may change rax.
 */
export interface Vectors {
  readonly lanes: 16 | 8;
  /** Bytes of a vector. */
  readonly byteLength: 64 | 32;
  /** The sums that stay in registers: two vectors of columns for each row. The four registers behind them are free. */
  readonly tile: { readonly rows: number; readonly columns: number };

  vector(index: number): Vector;
  zero(target: Vector): void;
  /**
   * Visits the columns of the square of which the first vectors are the rows, in order, each in a register, with another one that
   * is free.
   */
  transpose(visit: (column: number, vector: Vector, spare: Vector) => void): void;
  /** What bf16 has of f32 values, in the low halves of their elements. Changes four vectors from the first spare one on. */
  narrow(target: Vector, firstSpare: number): void;

  /**
   * Remembers how many lanes of a panel there are, for `loadLanes`: vectors from the twelfth on, or masks. Changes r8 and r10, or
   * the count.
   */
  beginLanes(count: Register, packing: Packing, panelLanes: number): void;
  /** The lanes of this vector of an element: f32, or bf16 in the low halves. Those that are not there are 0. Vectors 4 to 7 are free. */
  loadLanes(packing: Packing, target: Vector, base: Register, part: number): void;
  /** A vector of a panel with so many lanes, and nothing behind it. Vector 4 is free. */
  storeLanes(place: Memory, source: Vector, part: number, panelLanes: number): void;

  /** Remembers how many elements of a lane there are, for `loadUnits`. Changes r8 and r10. */
  beginUnits(count: Register, packing: Packing): void;
  /** So many units of a lane as a vector has elements: f32, or pairs of bf16. Elements that are not there are 0. */
  loadUnits(packing: Packing, target: Vector, base: Register): void;

  /** Remembers how many columns of a panel there are: in masks, or in the place on the stack. */
  beginColumns(count: Register, place: Memory): void;
  /** Hands it to a kernel. Changes r11. */
  passColumns(place: Memory): void;
  /** In a kernel, before `loadColumns`, which reads the last two vectors. */
  prepareColumns(): void;
  loadColumns(target: Vector, place: Memory, half: 0 | 1): void;
  /** Has rows stored: once, or, where this takes other instructions, once for panels with all columns and once for others. */
  eachStore(emit: (isWhole: boolean) => void): void;
  storeColumns(place: Memory, sum: Vector, half: 0 | 1, isWhole: boolean): void;
  /** Both vectors of a row in bf16. Changes them, and rcx. */
  storeNarrowColumns(base: Register, row: readonly [Vector, Vector], isWhole: boolean): void;
}

/** What `narrow` computes with, where no instruction does all of it: the bits of f32 values. */
export const bitsOfBf16 = {
  /** An element of the lowest bit that is kept, which decides where both neighbours are equally near. */
  one: 1,
  half: 0x7fff,
  withoutSign: 0x7fff_ffff,
  sign: -0x8000_0000,
  infinity: 0x7f80_0000,
  /** Of a NaN that raises nothing. */
  quiet: 0x0040_0000,
  leastNormal: 0x0080_0000,
} as const;

export type BitsOfBf16 = keyof typeof bitsOfBf16;

/** Bytes from one of them to the next, which repeats it for all lanes of 32 bytes. */
const constantBytes = 32;

/** The words of a table with all of them. */
export const bf16Table: readonly number[] = Object.values(bitsOfBf16).flatMap((bits) =>
  Array.from({ length: constantBytes / 4 }, () => bits),
);

export function bf16Offset(name: BitsOfBf16): number {
  return constantBytes * Object.keys(bitsOfBf16).indexOf(name);
}
