import type { LoopSpec } from '../wasm/loop-spec.ts';
import type { RowProgram } from '../wasm/rows/rows.ts';
import type { LaneLoop } from './lane-loop.ts';

/** What a loop does: to elements, or to rows. */
export type LoopSource =
  | { readonly kind: 'elements'; readonly spec: LoopSpec }
  | { readonly kind: 'rows'; readonly program: RowProgram };

/** One call of a routine. */
export interface LoopCall {
  /** Where its code lies. */
  readonly routine: bigint;
  readonly rows: number;
  readonly columns: number;
  /** Values whose addresses it takes. */
  readonly values: readonly number[];
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
  /** The routine of a loop; undefined where WebAssembly alone has what it takes. Loops of one key are the same. */
  routine(key: string, build: () => LaneLoop): bigint | undefined;
  /** The calls, on values in a memory. */
  link(memory: WebAssembly.Memory, calls: readonly LoopCall[]): LinkedLoops;
}
