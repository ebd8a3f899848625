import type { LoopSpec } from './loop-spec.ts';
import type { RowProgram } from './rows.ts';
import type { LaneLoop } from './lane-loop.ts';

/** The source of a loop, over elements or over rows. */
export type LoopSource =
  | { readonly kind: 'elements'; readonly spec: LoopSpec }
  | { readonly kind: 'rows'; readonly program: RowProgram };

/**
 * A kernel that is not such a loop, but has a routine in machine code. The routine takes the numbers and addresses that
 * the kernel takes, and gives the same bits.
 */
export type RoutineSource =
  | { readonly kind: 'row copy'; readonly loops: number }
  | { readonly kind: 'row sums'; readonly dtype: 'f32' | 'bf16' };

/** One call of a routine. */
export interface LoopCall {
  /** The address of the routine's code. */
  readonly routine: bigint;
  /**
   * The numbers that it takes in front of addresses. For a loop: its rows, its columns and the flat index of its first
   * element.
   */
  readonly numbers: readonly number[];
  /** The values whose addresses it takes. */
  readonly values: readonly number[];
  /** At which byte of each value it starts. Default: at the first. */
  readonly byteOffsets?: readonly number[];
}

/**
 * The words of a call of a loop, of 8 bytes each: its routine, the byte length of the call, rows, columns, the
 * flat index of the first element, and the address of each operand. Addresses that don't fit in registers are advanced
 * there from row to row.
 */
export const callWords = {
  routine: 0,
  byteLength: 1,
  rows: 2,
  columns: 3,
  firstIndex: 4,
  addresses: 5,
} as const;

/** The numbers of a loop over all elements of its rows: rows, columns, and the index of the first element. */
export function loopNumbers(rows: number, columns: number): readonly number[] {
  return [rows, columns, 0];
}

/** Calls that are carried out together. */
export interface LinkedLoops {
  /**
   * Carries out the calls. If `addressOf` is the same function as in the run before, all addresses are the same too.
   */
  run(addressOf: (value: number) => number): void;
}

/** Compiles and links loops in machine code of this processor. */
export interface LoopCode {
  /** Returns the loop in terms of lanes. */
  lanes(source: LoopSource): LaneLoop;
  /**
   * Returns the address of the routine of a loop or a kernel. Returns undefined if only WebAssembly can run it. Each
   * key is built once.
   */
  routine(key: string, build: () => LaneLoop | RoutineSource): bigint | undefined;
  /** Links calls on values in a memory. */
  link(memory: WebAssembly.Memory, calls: readonly LoopCall[]): LinkedLoops;
}
