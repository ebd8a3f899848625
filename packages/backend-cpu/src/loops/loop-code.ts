import type { LoopSpec } from '../wasm/loop-spec.ts';
import type { RowProgram } from '../wasm/rows/rows.ts';
import type { LaneLoop } from './lane-loop.ts';
import type { WrittenRoutine } from './written-routine.ts';

/** What a loop does: to elements, or to rows. */
export type LoopSource =
  | { readonly kind: 'elements'; readonly spec: LoopSpec }
  | { readonly kind: 'rows'; readonly program: RowProgram };

/** A kernel that is no such loop, and has a routine. It takes the same numbers there, and gives the same bits. */
export type RoutineSource =
  | { readonly kind: 'row copy'; readonly loops: number }
  | { readonly kind: 'row sums'; readonly dtype: 'f32' | 'bf16' };

/** One call of a routine. */
export interface LoopCall {
  /** Where its code lies. */
  readonly routine: bigint;
  /** What it takes before addresses: of a loop its rows, its columns and the index of its first element. */
  readonly numbers: readonly number[];
  /** Values whose addresses it takes. */
  readonly values: readonly number[];
  /** Where in each value it starts; at its first byte where this is not given. */
  readonly byteOffsets?: readonly number[];
}

/** The numbers of a loop over all elements of its rows. */
export function loopNumbers(rows: number, columns: number): readonly number[] {
  return [rows, columns, 0];
}

/** Calls that are carried out in one go. */
export interface LinkedLoops {
  /** Where `addressOf` is the function of the run before, all addresses are what they were. */
  run(addressOf: (value: number) => number): void;
}

/** Loops in machine code of this processor. */
export interface LoopCode {
  /** The loop in terms of lanes. */
  lanes(source: LoopSource): LaneLoop;
  /** The routine of a kernel that is no such loop. */
  written(source: RoutineSource): WrittenRoutine;
  /** The routine of a loop or a kernel; undefined where WebAssembly alone has what it takes. Those of one key are the same. */
  routine(key: string, build: () => LaneLoop | WrittenRoutine): bigint | undefined;
  /** The calls, on values in a memory. */
  link(memory: WebAssembly.Memory, calls: readonly LoopCall[]): LinkedLoops;
}
