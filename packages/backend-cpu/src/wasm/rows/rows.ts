import type { Code, FunctionBuilder, Local } from '@shardwise/wasm-assembler';
import type { LaneDType } from '../loop-spec.ts';

export type Vector = Local<'v128'>;
export type Fold = 'sum' | 'max';

/** Neighbouring elements of a row, as many as a vector has. `A` stands for a row's address. */
export interface Cursor<A> {
  readonly load: (row: A) => Vector;
  readonly store: (row: A, value: Code<'v128'>) => void;
  /** Stores what is not the result yet, but loaded again for this row. */
  readonly keep: (row: A, value: Code<'v128'>) => void;
}

/**
 * Walks over rows, whatever the vectors are: of WebAssembly (row-writer.ts), or of the processor (loops/row-loop.ts).
 * Sums have a fixed order, which is another one for each.
 */
export interface Rows<A> {
  /** For values that are the same in all lanes, and what is computed from them. */
  readonly fn: FunctionBuilder;
  readonly address: (index: number) => A;
  /** A sum over the row divided by the number of columns. */
  readonly mean: (sum: Vector) => Vector;
  /** `body` for each row; `advancing` addresses move from row to row. */
  readonly eachRow: (advancing: readonly A[], body: () => void) => void;
  /** `body` for all elements of the row. */
  readonly each: (body: (at: Cursor<A>) => void, unroll?: number) => void;
  /** Sums or maxima over the row of what `terms` gives, each in all lanes. Empty sums are 0. */
  readonly fold: (
    folds: readonly Fold[],
    terms: (at: Cursor<A>) => readonly Code<'v128'>[],
  ) => Vector[];
}

/** What is done to each row. */
export interface RowProgram {
  /** What lies at each address. Values of 16 bits are loaded and stored as they are, at the low end of lanes. */
  readonly operands: readonly LaneDType[];
  /** Whether it keeps a row where its result is to be. */
  readonly keeps?: true;
  readonly write: <A>(rows: Rows<A>) => void;
}

/** So many operands of f32. */
export function floats(count: number): readonly LaneDType[] {
  return Array.from({ length: count }, () => 'f32');
}
