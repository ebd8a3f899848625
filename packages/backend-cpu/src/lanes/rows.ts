import type { Code, FunctionBuilder, Local } from '@shardwise/wasm-assembler';
import type { LaneDType } from './loop-spec.ts';

export type Vector = Local<'v128'>;
export type Fold = 'sum' | 'max';

/** Adjacent elements of a row, as many as a vector has. `A` is the type of a row's address. */
export interface Cursor<A> {
  readonly load: (row: A) => Vector;
  readonly store: (row: A, value: Code<'v128'>) => void;
  /** Stores a value that is not the result yet, but is loaded again for this row. */
  readonly keep: (row: A, value: Code<'v128'>) => void;
}

/**
 * Walks over rows with any kind of vectors: those of WebAssembly (emit/wasm/rows/row-writer.ts), or those of the
 * processor (row-loop.ts). Sums have a fixed order, which is different for these two.
 */
export interface Rows<A> {
  /** Makes values that are the same in all lanes, and what is computed from them. */
  readonly fn: FunctionBuilder;
  readonly address: (index: number) => A;
  /** Returns a sum over the row, divided by the number of columns. */
  readonly mean: (sum: Vector) => Vector;
  /** Runs `body` for each row. The addresses of `advancing` move from row to row. */
  readonly eachRow: (advancing: readonly A[], body: () => void) => void;
  /** Runs `body` for all elements of the row. */
  readonly each: (body: (at: Cursor<A>) => void, unroll?: number) => void;
  /** Returns sums or maxima over the row of the values that `terms` returns. Each is in all lanes. Empty sums are 0. */
  readonly fold: (
    folds: readonly Fold[],
    terms: (at: Cursor<A>) => readonly Code<'v128'>[],
  ) => Vector[];
}

/** A computation on each row. */
export interface RowProgram {
  /**
   * The dtype of the values at each address. Values of 16 bits are loaded and stored as their bits, at the low end of
   * lanes.
   */
  readonly operands: readonly LaneDType[];
  /** Whether the program keeps a row of values in the memory of its result. */
  readonly keeps?: true;
  readonly write: <A>(rows: Rows<A>) => void;
}

/** Operands of f32. */
export function floats(count: number): readonly LaneDType[] {
  return Array.from({ length: count }, () => 'f32');
}
