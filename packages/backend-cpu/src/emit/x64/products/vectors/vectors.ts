import type { Memory, Register, Vector } from '../../operands.ts';
import type { ElementPacking } from '../../../../program/work/product-kinds.ts';

/**
 * The vector registers of a processor, as routines of products use them. Each method writes instructions. Lanes are
 * elements of 4 bytes. All methods may change rax.
 */
export interface Vectors {
  readonly lanes: 16 | 8;
  /** The bytes of one vector. */
  readonly byteLength: 64 | 32;
  /**
   * The size of the tile of sums that stays in registers: two vectors of columns for each row. The four registers
   * behind them are free.
   */
  readonly tile: { readonly rows: number; readonly columns: number };

  vector(index: number): Vector;
  zero(target: Vector): void;
  /**
   * Transposes the square whose rows are the first vectors. Visits its columns in order. Each column is in a register,
   * and `spare` is another register that is free.
   */
  transpose(visit: (column: number, vector: Vector, spare: Vector) => void): void;
  /** Rounds f32 values to bf16, in the low halves of their elements. Changes four vectors from `firstSpare` on. */
  narrow(target: Vector, firstSpare: number): void;

  /**
   * Keeps how many lanes of a panel exist, for `loadLanes`, in vectors from number 12 on or in masks. May change r8,
   * r10 and the count.
   */
  beginLanes(count: Register, packing: ElementPacking, panelLanes: number): void;
  /**
   * Loads the lanes of one vector of an element: f32, or bf16 in the low halves. Lanes that do not exist are 0. May
   * change vectors 4 to 7.
   */
  loadLanes(packing: ElementPacking, target: Vector, base: Register, part: number): void;
  /** Stores a vector of a panel with `panelLanes` lanes, and writes nothing behind the panel. May change vector 4. */
  storeLanes(place: Memory, source: Vector, part: number, panelLanes: number): void;

  /** Keeps how many elements of a lane exist, for `loadUnits`. Changes r8 and r10. */
  beginUnits(count: Register, packing: ElementPacking): void;
  /**
   * Loads as many units of a lane as a vector has elements: f32, or pairs of bf16. Elements that do not exist are 0.
   */
  loadUnits(packing: ElementPacking, target: Vector, base: Register): void;

  /** Keeps how many columns of a panel exist, in masks or in the place on the stack. */
  beginColumns(count: Register, place: Memory): void;
  /** Passes the number of columns to a kernel. Changes r11. */
  passColumns(place: Memory): void;
  /** Must be called in a kernel before `loadColumns`, which may use the last two vectors as masks. */
  prepareColumns(): void;
  loadColumns(target: Vector, place: Memory, half: 0 | 1): void;
  /**
   * Calls `emit` to write the stores of all rows. If panels with all columns need other instructions, it is called
   * twice: once for such panels, and once for others.
   */
  eachStore(emit: (isWhole: boolean) => void): void;
  storeColumns(place: Memory, sum: Vector, half: 0 | 1, isWhole: boolean): void;
  /** Stores both vectors of a row as bf16. Changes them, and rcx. */
  storeNarrowColumns(base: Register, row: readonly [Vector, Vector], isWhole: boolean): void;
}

/** The bits of f32 values that `narrow` computes with on processors without an instruction for it. */
const bitsOfBf16 = {
  /** Selects the lowest bit that is kept. This bit decides if two bf16 values are equally near. */
  one: 1,
  half: 0x7fff,
  withoutSign: 0x7fff_ffff,
  sign: -0x8000_0000,
  infinity: 0x7f80_0000,
  /** The bit that makes a NaN quiet. */
  quiet: 0x0040_0000,
  leastNormal: 0x0080_0000,
} as const;

export type BitsOfBf16 = keyof typeof bitsOfBf16;

/** The bytes of each constant in the table, which repeats it for all lanes of 32 bytes. */
const CONSTANT_BYTES = 32;

/** The words of a table with all of these constants. */
export const bf16Table: readonly number[] = Object.values(bitsOfBf16).flatMap((bits) =>
  Array.from({ length: CONSTANT_BYTES / 4 }, () => bits),
);

export function bf16Offset(name: BitsOfBf16): number {
  return CONSTANT_BYTES * Object.keys(bitsOfBf16).indexOf(name);
}
